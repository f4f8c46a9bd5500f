//! What precedes an entry and says more about it than its header can: long names, attributes,
//! sizes beyond 8 GiB.

use super::error::UnpackError;

/// Collected for the next entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    /// Seconds and nanoseconds.
    pub(super) mtime: Option<(i64, u32)>,
    /// Names and values, as they came.
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// The content is a map of holes. Nothing that exports a root writes this.
    pub(super) sparse: bool,
}

/// The prefix under which attributes are stored.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";

impl Extended {
    /// Takes the records of a pax header: `LENGTH KEY=VALUE\n`, where the length counts itself, so
    /// that values may hold anything.
    pub(super) fn take_records(&mut self, mut records: &[u8], before: u64) -> Result<(), UnpackError> {
        let malformed = |what| UnpackError::Malformed { before, what };
        while !records.is_empty() {
            let digits = records.iter().position(|byte| *byte == b' ').filter(|digits| *digits <= 10);
            let digits = digits.ok_or(malformed("an extended record without a length"))?;
            let length = number(&records[..digits]).and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|length| *length > digits + 1 && *length <= records.len());
            let length = length.ok_or(malformed("an extended record of another length than it says"))?;
            let (record, rest) = records.split_at(length);
            let record = record[digits + 1..].strip_suffix(b"\n");
            let record = record.ok_or(malformed("an extended record that does not end with its line"))?;
            let equals = record.iter().position(|byte| *byte == b'=');
            let equals = equals.ok_or(malformed("an extended record without a value"))?;
            self.take(&record[..equals], &record[equals + 1..])
                .ok_or(malformed("an extended record with a number that is none"))?;
            records = rest;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number(value)?),
            b"uid" => self.uid = Some(number(value)?),
            b"gid" => self.gid = Some(number(value)?),
            b"mtime" => self.mtime = Some(moment(value)?),
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {
                if let Some(name) = key.strip_prefix(ATTRIBUTE) {
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Some(())
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    // `parse` would take a sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

/// `1700000000.25`, also before 1970.
fn moment(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let dot = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let seconds = i64::try_from(number(&text[..dot])?).ok()?;
    let mut nanoseconds = 0;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    for place in 0..9 {
        let digit = match fraction.get(place) {
            Some(digit) if digit.is_ascii_digit() => u32::from(digit - b'0'),
            Some(_) => return None,
            None => 0,
        };
        nanoseconds = nanoseconds * 10 + digit;
    }
    Some(match (negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        // The kernel counts nanoseconds forward from the second.
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(records: &[u8]) -> Option<Extended> {
        let mut extended = Extended::default();
        extended.take_records(records, 0).ok().map(|()| extended)
    }

    #[test]
    fn records_are_taken_by_their_length() {
        let extended = taken(b"12 path=a/b\n27 SCHILY.xattr.user.a=\n\0=\n17 mtime=12.5000\n").unwrap();
        assert_eq!(extended.path.as_deref(), Some(b"a/b".as_slice()));
        assert_eq!(extended.attributes, [(b"user.a".to_vec(), b"\n\0=".to_vec())]);
        assert_eq!(extended.mtime, Some((12, 500_000_000)));
    }

    #[test]
    fn sparse_maps_are_noticed() {
        assert!(taken(b"22 GNU.sparse.major=1\n").unwrap().sparse);
    }

    #[test]
    fn damaged_records_are_refused() {
        for records in [
            b"99 path=a\n".as_slice(),
            b"5 path=a\n",
            b"path=a\n",
            b"10 path=ab",
            b"0 path=a\n",
            b"9 patha\n\n",
            b"12 size=-12\n",
            b"12 size=1e3\n",
            b"99999999999999999999 path=a\n",
            b"+10 path=a\n",
        ] {
            assert!(taken(records).is_none(), "{}", records.escape_ascii());
        }
    }

    #[test]
    fn moments() {
        assert_eq!(moment(b"1700000000"), Some((1_700_000_000, 0)));
        assert_eq!(moment(b"1.000000001999"), Some((1, 1)));
        assert_eq!(moment(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(moment(b"-3"), Some((-3, 0)));
        assert_eq!(moment(b"1.2x"), None);
        assert_eq!(moment(b"abc"), None);
    }
}
