//! The columns of a list of flows, found by their names.

use super::time::TimeUnit;
use crate::error::{Error, nearest, one_of};
use crate::read::cell::Cell;

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Destination,
    Bytes,
    Start,
    End,
    Duration,
}

impl Role {
    const REQUIRED: [Role; 4] = [Role::Source, Role::Destination, Role::Bytes, Role::Start];
    const ALL: [Role; 6] =
        [Role::Source, Role::Destination, Role::Bytes, Role::Start, Role::End, Role::Duration];

    fn is_time(self) -> bool {
        matches!(self, Role::Start | Role::End | Role::Duration)
    }

    /// Names in lower case without other characters than letters and digits. Names of times have no
    /// unit here. The first is the usual one.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Role::Source => &[
                "src",
                "source",
                "srcaddr",
                "srcip",
                "srchost",
                "srcaddress",
                "srcipaddr",
                "saddr",
                "sa",
                "sourceip",
                "sourceaddress",
                "sourcehost",
                "ipsrc",
                "ipv4srcaddr",
                "ipv6srcaddr",
                "sourceipv4address",
                "sourceipv6address",
            ],
            Role::Destination => &[
                "dst",
                "destination",
                "dest",
                "dstaddr",
                "dstip",
                "dsthost",
                "dstaddress",
                "dstipaddr",
                "daddr",
                "da",
                "destip",
                "destaddr",
                "destinationip",
                "destinationaddress",
                "destinationhost",
                "ipdst",
                "ipv4dstaddr",
                "ipv6dstaddr",
                "destinationipv4address",
                "destinationipv6address",
            ],
            Role::Bytes => &[
                "bytes",
                "size",
                "sizebytes",
                "octets",
                "octetdeltacount",
                "octettotalcount",
                "doctets",
                "inbytes",
                "ibyt",
                "byt",
                "bytecount",
                "flowbytes",
                "flowsize",
                "flowsizebytes",
                "totalbytes",
                "totbytes",
            ],
            Role::Start => &[
                "start",
                "first",
                "starttime",
                "flowstart",
                "firstswitched",
                "flowstartsysuptime",
                "firstseen",
                "timestamp",
                "ts",
                "stime",
                "begin",
                "arrival",
                "time",
            ],
            Role::End => &[
                "end",
                "last",
                "endtime",
                "flowend",
                "lastswitched",
                "flowendsysuptime",
                "lastseen",
                "te",
                "etime",
            ],
            Role::Duration => {
                &["duration", "fct", "flowduration", "dur", "td", "completion", "completiontime"]
            }
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) index: usize,
    /// Unit of its times, if its name determines one.
    pub(super) unit: Option<TimeUnit>,
}

/// The columns of a list.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Names in the file.
    pub(super) names: Vec<String>,
    pub(super) src: Column,
    pub(super) dst: Column,
    pub(super) bytes: Column,
    pub(super) start: Column,
    pub(super) end: Option<Column>,
    pub(super) duration: Option<Column>,
    /// Names of columns that are not read, because the first column has the same meaning: the first
    /// name and theirs.
    pub(super) unread: Vec<[String; 2]>,
}

/// The name in lower case, without other characters than letters and digits.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The meaning of a name, and the unit that it determines.
fn role(name: &str) -> Option<(Role, Option<TimeUnit>)> {
    let name = plain(name);
    let with = |name: &str, time: bool| {
        let fits = |role: &Role| (!time || role.is_time()) && role.names().contains(&name);
        Role::ALL.into_iter().find(fits)
    };
    // NetFlow and IPFIX define these in milliseconds since the start of the exporter.
    const UPTIMES: [&str; 4] =
        ["flowstartsysuptime", "flowendsysuptime", "firstswitched", "lastswitched"];
    let ms = UPTIMES.contains(&name.as_str()).then_some(TimeUnit::Ms);
    if let Some(role) = with(&name, false) {
        return Some((role, ms));
    }
    let (stem, unit) = TimeUnit::split(&name)?;
    with(stem, true).map(|role| (role, Some(unit)))
}

impl Columns {
    /// Finds the columns in the first line of a list.
    ///
    /// # Errors
    /// If a required column is missing, or a column that is read has the name of another.
    pub(super) fn of(names: Vec<String>, line: Cell<'_>) -> Result<Columns, Error> {
        let roles: Vec<_> = names.iter().map(|name| role(name)).collect();
        let find = |wanted: Role| {
            let found = roles.iter().enumerate().find_map(|(index, role)| match role {
                Some((role, unit)) if *role == wanted => Some(Column { index, unit: *unit }),
                _ => None,
            });
            let twin = found.and_then(|column| {
                let is_same = |name: &&String| plain(name) == plain(&names[column.index]);
                names[column.index + 1..].iter().find(is_same)
            });
            if let Some(twin) = twin {
                let expected = "each column that is read once: rename or remove one of the two";
                return Err(line.error_found(format!("two columns {twin:?}"), expected));
            }
            if found.is_some() || !Role::REQUIRED.contains(&wanted) {
                return Ok(found);
            }
            let unknown = names.iter().zip(&roles).filter(|(_, role)| role.is_none());
            let near = unknown.map(|(name, _)| plain(name));
            let near =
                near.filter_map(|name| nearest(&name, wanted.names().iter().copied())).next();
            let shown = wanted.names().iter().copied().take(6);
            let text = line.text;
            let expected =
                format!("a first line with the names of columns, one of them {}", one_of(shown));
            Err(Cell { text, ..line }.error(expected).suggest(near))
        };
        let required = |role| find(role).map(|column| column.expect("it is required"));
        let (src, dst) = (required(Role::Source)?, required(Role::Destination)?);
        let (bytes, start) = (required(Role::Bytes)?, required(Role::Start)?);
        let (end, duration) = (find(Role::End)?, find(Role::Duration)?);
        let of = |wanted: Role| {
            let has_role =
                move |(_, role): &(_, &Option<_>)| role.is_some_and(|(role, _)| role == wanted);
            names.iter().zip(&roles).filter(has_role).map(|(name, _)| name)
        };
        let pairs = |role| of(role).skip(1).zip(of(role).take(1).cycle());
        let unread = Role::ALL.into_iter().flat_map(pairs);
        let unread = unread.map(|(other, first)| [first.clone(), other.clone()]).collect();
        Ok(Columns { src, dst, bytes, start, end, duration, unread, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(line: &str) -> Result<Columns, String> {
        let names = line.split(',').map(str::to_owned).collect();
        let cell = Cell { file: "x.csv", line: 1, heading: "", text: line };
        Columns::of(names, cell).map_err(|error| error.to_string())
    }

    #[test]
    fn usual_names_are_found() {
        for line in [
            "src,dst,bytes,start_ms,end_ms",
            "sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStartMilliseconds,\
             flowEndMilliseconds",
            "SRCADDR,DSTADDR,dOctets,First_ms,Last_ms",
        ] {
            let found = columns(line).unwrap();
            assert_eq!([found.src, found.dst, found.bytes].map(|of| of.index), [0, 1, 2], "{line}");
            let ms = |index| Column { index, unit: Some(TimeUnit::Ms) };
            assert_eq!((found.start, found.end, found.duration), (ms(3), Some(ms(4)), None));
        }
        let nfdump = columns("ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt").unwrap();
        assert_eq!((nfdump.start.index, nfdump.start.unit, nfdump.bytes.index), (0, None, 10));
        let own = columns("start_us,src,dst,size_bytes,fct_us").unwrap();
        assert_eq!(own.duration, Some(Column { index: 4, unit: Some(TimeUnit::Us) }));
        assert_eq!(
            columns("src,dst,octets,FIRST_SWITCHED").unwrap().start.unit,
            Some(TimeUnit::Ms)
        );
    }

    #[test]
    fn missing_columns_are_named() {
        let error = columns("src,dst,byts,start_s").unwrap_err();
        assert!(error.contains("x.csv:1") && error.contains("did you mean \"bytes\""), "{error}");
        assert!(columns("1,2,3").unwrap_err().contains("\"src\""));
    }

    #[test]
    fn columns_with_the_same_name_are_refused() {
        for (line, name) in [
            ("src,dst,bytes,bytes,start_s", "bytes"),
            ("src,dst,bytes,start_s,Start-S", "Start-S"),
            ("src,dst,bytes,start_s,dur_s,dur_s", "dur_s"),
        ] {
            let error = columns(line).unwrap_err();
            let found = format!("x.csv:1: found two columns {name:?}, expected");
            assert!(error.starts_with(&found) && error.contains("remove one"), "{error}");
        }
        // Other columns are ignored, and the first of several with one meaning counts.
        let found = columns("x,src,dst,bytes,start_s,octets,time_us,x,,size").unwrap();
        assert_eq!((found.bytes.index, found.start.index), (3, 4));
        let unread = [["bytes", "octets"], ["bytes", "size"], ["start_s", "time_us"]];
        assert_eq!(found.unread, unread);
    }
}
