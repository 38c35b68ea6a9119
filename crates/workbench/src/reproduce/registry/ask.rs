//! A question of the registry's: a metric, and the runs that are asked for it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::reproduce::metrics::Question;

/// A question to runs, written as one table: `metric`, `run` or `runs`, and the parameters of the
/// metric.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) question: Question,
    /// Names of the runs that are asked. Charts name none: they ask all of theirs.
    pub(crate) runs: Vec<String>,
    /// The whole of it as JSON, keys in order: parameters that a metric gets later on do not change
    /// what was said without them.
    pub(crate) said: String,
}

impl Ask {
    /// The run that is asked first, second, …; where there is only one, always that.
    pub(crate) fn run(&self, i: usize) -> Option<&str> {
        let only = self.runs.first().filter(|_| self.runs.len() == 1);
        self.runs.get(i).or(only).map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Ask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ask, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let said = serde_json::to_string(&table).map_err(D::Error::custom)?;
        let mut take = |key| table.remove(key);
        let (metric, run, runs) = (take("metric"), take("run"), take("runs"));
        let Some(toml::Value::String(metric)) = metric else {
            return Err(D::Error::custom("`metric` names what is asked for"));
        };
        let runs = match (run, runs) {
            (None, None) => Ok(Vec::new()),
            (Some(run), None) => run.try_into().map(|run| vec![run]),
            (None, Some(runs)) => runs.try_into(),
            (Some(_), Some(_)) => return Err(D::Error::custom("either `run` or `runs`, not both")),
        };
        let runs = runs.map_err(|error| D::Error::custom(format!("run: {}", error.message())))?;
        let question = Question::new(&metric, table).map_err(D::Error::custom)?;
        Ok(Ask { question, runs, said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_answers_for_all_and_several_for_themselves() {
        let ask = |text: &str| toml::from_str::<Ask>(text).unwrap();
        let one = ask("metric = 'goodput'\nrun = 'a'");
        assert_eq!([one.run(0), one.run(1)], [Some("a"), Some("a")]);
        let two = ask("runs = ['a', 'b']\nmetric = 'goodput'");
        assert_eq!([two.run(0), two.run(1), two.run(2)], [Some("a"), Some("b"), None]);
        assert_eq!(ask("metric = 'goodput'").run(0), None);
    }

    #[test]
    fn what_is_said_does_not_hang_on_the_order_of_keys() {
        let said = |text: &str| toml::from_str::<Ask>(text).unwrap().said;
        let one = said("run = 'a'\nmetric = 'goodput'\nfrom_ms = 2.0");
        assert_eq!(one, said("from_ms = 2.0\nmetric = 'goodput'\nrun = 'a'"));
        assert_eq!(one, r#"{"from_ms":2.0,"metric":"goodput","run":"a"}"#);
    }

    #[test]
    fn a_wrong_question_is_refused() {
        for (text, said) in [
            ("run = 'a'", "`metric` names what is asked for"),
            ("metric = 'goodput'\nrun = 'a'\nruns = ['b']", "not both"),
            ("metric = 'goodput'\nrun = ['a']", "run: invalid type"),
            ("metric = 'goodput'\nfor_ms = 1.0", "unknown field `for_ms`"),
        ] {
            let error = toml::from_str::<Ask>(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
