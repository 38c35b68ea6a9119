//! Sizes of generated messages: a fixed size, a distribution that ships with this crate, or one
//! from a CSV file.

use tidegate_core::Message;
use tidegate_core::math::ln;
use tidegate_core::workload::{Distribution, Sampling, Sizes};

use super::csv;
use crate::error::{Error, nearest, one_of};
use crate::inputs::{self, Reader};
use crate::read::check;
use crate::read::keys::{Key, MESSAGE, Optional, Shape, key};
use crate::read::table::{Datum, Table, Word};
use crate::read::tree::Raw;

pub(crate) const SAMPLING: Key = key(
    "sampling",
    Shape::Word(&["linear", "step", "log"]),
    Optional,
    "How a distribution is sampled between its points: linear interpolation of sizes, only the \
     sizes of its points (step), or linear interpolation of their logarithms (log). Default: as \
     the distribution's authors do; linear for a file.",
);
pub(crate) const MEAN: Key = key(
    "mean",
    MESSAGE,
    Optional,
    "Mean size of a distribution, from which load is converted to a rate. Default: the mean that \
     the distribution's authors use, or else its true mean.",
);

/// A distribution that ships with this crate.
pub(crate) struct Builtin {
    /// The first is the preferred name.
    pub(crate) names: &'static [&'static str],
    text: &'static str,
    sampling: Sampling,
    /// Mean with which its authors compute loads, if it differs from the sampler's.
    mean_bytes: Option<f64>,
}

macro_rules! builtin {
    ($($names:expr, $file:literal, $sampling:ident $(, $mean:literal)?;)*) => {
        &[$(Builtin {
            names: &$names,
            text: include_str!(concat!("../../workloads/", $file, ".csv")),
            sampling: Sampling::$sampling,
            mean_bytes: {
                #[allow(unused_mut, unused_assignments)]
                let mut mean = None;
                $(mean = Some($mean);)?
                mean
            },
        }),*]
    };
}

/// Every distribution, with the sampling of its authors. The first line of each file names the
/// source. SIRD's three are Homa's W3, W4 and W5, sampled in the logarithm, with the means of
/// SIRD's scripts. ExpressPass' four have the means of its large-scale script.
pub(crate) static BUILTIN: &[Builtin] = builtin! {
    ["wka", "wka-google-all-rpc"], "homa-w3", Logarithmic, 2927.354;
    ["wkb", "wkb-facebook-hadoop"], "homa-w4", Logarithmic, 121_848.0;
    ["wkc", "wkc-websearch"], "homa-w5", Logarithmic, 2_515_857.4;
    ["homa-w1", "homa-w1-keyvalue"], "homa-w1", Step;
    ["homa-w2", "homa-w2-google-search-rpc"], "homa-w2", Step;
    ["homa-w3", "homa-w3-google-all-rpc"], "homa-w3", Step;
    ["homa-w4", "homa-w4-facebook-hadoop"], "homa-w4", Step;
    ["homa-w5", "homa-w5-dctcp-websearch"], "homa-w5", Step;
    ["homa-dctcp-original"], "homa-dctcp-original", Step;
    ["homa-facebook-cache-follower"], "homa-facebook-cache-follower", Step;
    ["homa-facebook-web-server"], "homa-facebook-web-server", Step;
    ["websearch", "hpcc-websearch"], "hpcc-websearch", Linear;
    ["hadoop", "hpcc-fbhdp"], "hpcc-fbhdp", Linear;
    ["powertcp-websearch"], "powertcp-websearch", Linear;
    ["abm-datamining"], "abm-datamining", Linear;
    ["abm-hadoop"], "abm-hadoop", Linear;
    ["xpass-search"], "xpass-search", Linear, 1_654_275.0;
    ["xpass-mining"], "xpass-mining", Linear, 7_410_212.0;
    ["xpass-webserver"], "xpass-webserver", Linear, 63_735.0;
    ["xpass-cachefollower"], "xpass-cachefollower", Linear, 701_490.0;
    ["dcpim-imc10"], "dcpim-imc10", Linear;
    ["dcpim-websearch"], "dcpim-websearch", Linear;
    ["dcpim-datamining"], "dcpim-datamining", Linear;
    ["lb-dctcp"], "lb-dctcp", Linear;
    ["lb-fb"], "lb-fb", Linear;
    ["lb-vl2"], "lb-vl2", Linear;
};

/// Every name of a distribution.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().flat_map(|builtin| builtin.names.iter().copied())
}

/// The preferred name of every distribution.
fn firsts() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|builtin| builtin.names[0])
}

/// A distribution of message sizes that scenarios can name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedDistribution {
    /// Names; the first is the preferred one.
    pub names: &'static [&'static str],
    /// Sampling between its points: the value of the key `sampling`.
    pub sampling: &'static str,
    /// Mean of the drawn sizes, in bytes.
    pub mean_bytes: f64,
    /// Mean with which its authors compute loads, in bytes, if it differs from `mean_bytes`.
    pub load_mean_bytes: Option<f64>,
    /// Source of the distribution.
    pub source: &'static str,
}

/// Every distribution of sizes that ships with this crate.
pub fn distributions() -> impl Iterator<Item = NamedDistribution> {
    BUILTIN.iter().map(|builtin| NamedDistribution {
        names: builtin.names,
        sampling: sampling_name(builtin.sampling),
        mean_bytes: mean_of(&builtin.points(), builtin.sampling),
        load_mean_bytes: builtin.mean_bytes,
        source: builtin.text.lines().next().unwrap_or("").trim_start_matches(['#', ' ']),
    })
}

/// Reads the sizes in `key`, with `sampling` and `mean`. Unlimited sizes are accepted only if
/// `unlimited` is true.
pub(crate) fn of(
    table: &Table,
    key: &str,
    files: &Reader,
    unlimited: bool,
) -> Result<Sizes, Error> {
    let text: &str = table.get(key);
    // `sampling` and `mean` apply only to `sizes`, not to requests or replies.
    let has_keys = key == "sizes";
    let sampling = table.find::<Word>("sampling").filter(|_| has_keys).map(|word| match word.0 {
        "step" => Sampling::Step,
        "log" => Sampling::Logarithmic,
        _ => Sampling::Linear,
    });
    let fixed = match text {
        "inf" if unlimited => Some(Message::UNLIMITED),
        // A path may begin like a number.
        _ if inputs::is_file(text) => None,
        _ if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => {
            Some(fixed(table, key, text)?)
        }
        _ => None,
    };
    if let Some(bytes) = fixed {
        let is_given = |key: &&str| has_keys && table.item(key).is_some();
        if let Some(other) = ["sampling", "mean"].into_iter().find(is_given) {
            return Err(table.error(other, format!("no {other} with a fixed size: remove {other}")));
        }
        return Ok(Sizes::Fixed(bytes));
    }
    let (points, default, mean) = if inputs::is_file(text) {
        (csv::distribution(table, key, files)?, Sampling::Linear, None)
    } else {
        let normal = text.to_ascii_lowercase().replace('_', "-");
        let builtin = BUILTIN
            .iter()
            .find(|builtin| builtin.names.contains(&normal.as_str()))
            .ok_or_else(|| {
                let expected =
                    "a size such as \"1MB\", the path of a CSV file, or a distribution: ";
                table
                    .error(key, format!("{expected}{}", one_of(firsts())))
                    .suggest(nearest(&normal, names()))
            })?;
        (builtin.points(), builtin.sampling, builtin.mean_bytes)
    };
    let sampling = sampling.unwrap_or(default);
    let set = table.find::<u64>("mean").filter(|_| has_keys).map(|bytes| bytes as f64);
    let mean_bytes =
        set.or(mean.filter(|_| sampling == default)).unwrap_or_else(|| mean_of(&points, sampling));
    if mean_bytes.is_nan() || mean_bytes <= 0.0 {
        return Err(table.error(key, "a distribution with a mean above 0"));
    }
    Ok(Sizes::Drawn(Distribution { points, sampling, mean_bytes }))
}

fn fixed(table: &Table, key: &str, text: &str) -> Result<u64, Error> {
    match check::leaf(&Raw::Text(text.to_owned()), MESSAGE) {
        Ok(Datum::Bytes(bytes)) => Ok(bytes),
        Ok(other) => unreachable!("a size has the value {other:?}"),
        Err(why) => Err(table.error(key, why.expected).suggest(why.suggestion)),
    }
}

/// Mean of the sizes that a sampler draws.
pub(crate) fn mean_of(points: &[(f64, f64)], sampling: Sampling) -> f64 {
    let first = points.first().map_or(0.0, |(size, probability)| size * probability);
    points.windows(2).fold(first, |sum, pair| {
        let [(low, from), (high, to)] = [pair[0], pair[1]];
        let mean = match sampling {
            Sampling::Linear => (low + high) / 2.0,
            Sampling::Step => high,
            // Sizes below one byte are drawn as one.
            Sampling::Logarithmic if low.max(1.0) < high => {
                (high - low.max(1.0)) / ln(high / low.max(1.0))
            }
            Sampling::Logarithmic => high,
        };
        sum + (to - from) * mean
    })
}

impl Builtin {
    fn points(&self) -> Vec<(f64, f64)> {
        self.text
            .lines()
            .filter_map(|line| {
                let (size, probability) = line.split_once(',')?;
                Some((size.parse().ok()?, probability.parse().ok()?))
            })
            .collect()
    }
}

/// Returns `step`, `linear` or `log`.
pub(crate) fn sampling_name(sampling: Sampling) -> &'static str {
    match sampling {
        Sampling::Linear => "linear",
        Sampling::Step => "step",
        Sampling::Logarithmic => "log",
    }
}

/// A distribution that ships with this crate.
#[cfg(test)]
pub(crate) fn builtin(name: &str) -> Distribution {
    let found = BUILTIN.iter().find(|builtin| builtin.names.contains(&name));
    let (points, of) = found.map(|of| (of.points(), of)).unwrap();
    let mean_bytes = of.mean_bytes.unwrap_or_else(|| mean_of(&points, of.sampling));
    Distribution { points, sampling: of.sampling, mean_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size that a sampler draws for a uniform `u`.
    fn quantile(points: &[(f64, f64)], sampling: Sampling, u: f64) -> f64 {
        let at = points.partition_point(|(_, probability)| *probability < u);
        let (high, to) = points[at.min(points.len() - 1)];
        let Some((low, from)) = at.checked_sub(1).map(|before| points[before]) else { return high };
        let share = (u - from) / (to - from);
        match sampling {
            Sampling::Step => high,
            Sampling::Linear => low + share * (high - low),
            Sampling::Logarithmic => (low.max(1.0).ln() + share * (high / low.max(1.0)).ln()).exp(),
        }
    }

    fn sampled_mean(points: &[(f64, f64)], sampling: Sampling) -> f64 {
        // Finer steps towards the tail, which carries most of the bytes.
        let (mut sum, mut below) = (0.0, 0.0);
        for decade in 0..10 {
            let width = if decade == 9 { 0.1f64.powi(9) } else { 0.9 * 0.1f64.powi(decade) };
            let steps = 20_000;
            for step in 0..steps {
                let u = below + width * (f64::from(step) + 0.5) / f64::from(steps);
                sum += quantile(points, sampling, u) * width / f64::from(steps);
            }
            below += width;
        }
        sum
    }

    #[test]
    fn means_match_the_sources() {
        use Sampling::{Linear, Logarithmic, Step};
        // Means that the sources state, or that their samplers give.
        let table = [
            ("wka", Logarithmic, 2_890.0),
            ("wkb", Logarithmic, 121_713.0),
            ("wkc", Logarithmic, 2_478_878.0),
            ("homa-w1", Step, 187.0),
            ("homa-w1", Linear, 185.0),
            ("homa-w2", Step, 441.0),
            ("homa-w3", Step, 2_927.354),
            ("homa-w4", Step, 127_796.6),
            ("homa-w5", Step, 2_515_863.0),
            ("homa-dctcp-original", Step, 2_340_279.0),
            ("homa-facebook-cache-follower", Step, 692_976.0),
            ("homa-facebook-web-server", Step, 62_874.0),
            ("websearch", Linear, 1_711_250.0),
            ("hadoop", Linear, 120_421.0),
            ("powertcp-websearch", Linear, 1_711_222.0),
            ("abm-datamining", Linear, 5_036_535.0),
            ("abm-hadoop", Linear, 3_423_728.0),
            ("xpass-search", Linear, 1_710_004.0),
            ("xpass-mining", Linear, 7_487_884.0),
            ("xpass-webserver", Linear, 66_121.0),
            ("xpass-cachefollower", Linear, 712_574.0),
            ("dcpim-imc10", Linear, 195_357.0),
            ("dcpim-websearch", Linear, 1_665_831.0),
            ("dcpim-datamining", Linear, 7_470_236.0),
            ("lb-dctcp", Linear, 1_711_250.0),
            ("lb-fb", Linear, 342.0),
            ("lb-vl2", Linear, 12_658_199.0),
        ];
        for (name, sampling, mean) in table {
            let builtin = BUILTIN.iter().find(|builtin| builtin.names.contains(&name)).unwrap();
            assert!(builtin.sampling == sampling || name == "homa-w1", "{name}");
            let points = builtin.points();
            let ours = mean_of(&points, sampling);
            assert!((ours / mean - 1.0).abs() < 0.005, "{name}: {ours} against {mean}");
            let sampled = sampled_mean(&points, sampling);
            assert!(
                (sampled / ours - 1.0).abs() < 0.01,
                "{name}: sampled {sampled}, computed {ours}"
            );
        }
    }

    #[test]
    fn load_means_match_the_authors_scripts() {
        for (name, mean) in [
            ("wka", 2_927.354),
            ("wkb", 121_848.0),
            ("wkc", 2_515_857.4),
            ("xpass-search", 1_654_275.0),
            ("xpass-mining", 7_410_212.0),
            ("xpass-webserver", 63_735.0),
            ("xpass-cachefollower", 701_490.0),
        ] {
            let builtin = BUILTIN.iter().find(|builtin| builtin.names.contains(&name)).unwrap();
            assert_eq!(builtin.mean_bytes, Some(mean), "{name}");
            let drawn = mean_of(&builtin.points(), builtin.sampling);
            assert!((drawn / mean - 1.0).abs() < 0.05, "{name}: the drawn mean is {drawn}");
        }
        let with_means = BUILTIN.iter().filter(|builtin| builtin.mean_bytes.is_some());
        assert_eq!(with_means.count(), 7, "other distributions use the mean of the drawn sizes");
    }

    #[test]
    fn distributions_rise_to_one() {
        for builtin in BUILTIN {
            let points = builtin.points();
            let lines = builtin
                .text
                .lines()
                .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
                .count();
            assert_eq!(points.len(), lines, "{:?}", builtin.names);
            assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
            assert_eq!(points.last().unwrap().1, 1.0);
        }
    }
}
