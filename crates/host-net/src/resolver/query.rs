//! As much of a DNS message as must be understood to pass it on: enough to refuse what the
//! host is trusted with and a sandbox is not.

/// The fixed part of a message.
pub(super) const HEADER: usize = 12;

/// Answer codes.
pub(super) const SERVER_FAILURE: u8 = 2;
pub(super) const NOT_IMPLEMENTED: u8 = 4;
pub(super) const REFUSED: u8 = 5;
const FORMAT_ERROR: u8 = 1;

/// Zone transfers: the host may be allowed to ask for them.
const TRANSFERS: [u16; 2] = [251, 252];

/// What is to be done with a message from a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Ask a resolver.
    Forward,
    /// Answer with this code.
    Answer(u8),
    /// Not a question at all; an answer might be answered again.
    Ignore,
}

/// Looks at a message.
pub(super) fn judge(message: &[u8]) -> Verdict {
    if message.len() < HEADER || message[2] & 0x80 != 0 {
        return Verdict::Ignore;
    }
    // Updates and notifications change what others see, and zone servers may believe the host.
    if (message[2] >> 3) & 0x0f != 0 {
        return Verdict::Answer(NOT_IMPLEMENTED);
    }
    match question(message) {
        Some(kind) if TRANSFERS.contains(&kind) => Verdict::Answer(REFUSED),
        Some(_) => Verdict::Forward,
        None => Verdict::Answer(FORMAT_ERROR),
    }
}

/// The kind of record asked for, when there is exactly one question.
fn question(message: &[u8]) -> Option<u16> {
    if message[4..6] != [0, 1] {
        return None;
    }
    let end = name_end(message)?;
    let kind = message.get(end..end + 2)?;
    message.get(end + 2..end + 4)?;
    Some(u16::from_be_bytes([kind[0], kind[1]]))
}

/// Where the question's name ends. It comes first, so it cannot refer to an earlier one.
fn name_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length < 64 => at += 1 + usize::from(length),
            _ => return None,
        }
        if at > HEADER + 255 {
            return None;
        }
    }
}

/// An answer without records: the question again, and a code.
pub(super) fn answer(question: &[u8], code: u8) -> Vec<u8> {
    let end = name_end(question).map_or(HEADER, |end| end + 4).min(question.len());
    let mut answer = question[..end.max(HEADER)].to_vec();
    answer[2] = 0x80 | (question[2] & 0x79);
    answer[3] = 0x80 | code;
    if end == HEADER {
        answer[4..6].fill(0);
    }
    answer[6..HEADER].fill(0);
    answer
}

/// An answer that says: too long, ask again over TCP.
pub(super) fn truncated(question: &[u8]) -> Vec<u8> {
    let mut answer = answer(question, 0);
    answer[2] |= 0x02;
    answer
}

/// Whether `message` can be the answer to `question`.
pub(super) fn answers(question: &[u8], message: &[u8]) -> bool {
    message.len() >= HEADER && message[..2] == question[..2] && message[2] & 0x80 != 0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A question for a name, as a resolver library writes it.
    pub(crate) fn ask(id: u16, name: &str, kind: u16) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in name.split('.') {
            message.push(label.len() as u8);
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    #[test]
    fn questions_are_passed_on_and_nothing_else() {
        let good = ask(7, "example.test", 1);
        assert_eq!(judge(&good), Verdict::Forward);
        assert_eq!(judge(&ask(7, "example.test", 252)), Verdict::Answer(REFUSED));
        assert_eq!(judge(&ask(7, "example.test", 251)), Verdict::Answer(REFUSED));
        let mut update = good.clone();
        update[2] |= 5 << 3;
        assert_eq!(judge(&update), Verdict::Answer(NOT_IMPLEMENTED));
        let mut response = good.clone();
        response[2] |= 0x80;
        assert_eq!(judge(&response), Verdict::Ignore);
        let mut two = good.clone();
        two[5] = 2;
        assert_eq!(judge(&two), Verdict::Answer(FORMAT_ERROR));
        for length in 0..good.len() {
            let cut = judge(&good[..length]);
            let expect = if length < HEADER { Verdict::Ignore } else { Verdict::Answer(FORMAT_ERROR) };
            assert_eq!(cut, expect, "{length}");
            if length >= HEADER {
                assert!(answer(&good[..length], FORMAT_ERROR).len() >= HEADER);
            }
        }
        let mut looping = good;
        looping[HEADER] = 0xc0;
        assert_eq!(judge(&looping), Verdict::Answer(FORMAT_ERROR));
    }

    #[test]
    fn answers_repeat_the_question() {
        let question = ask(0x1234, "a.b", 28);
        let failure = answer(&question, SERVER_FAILURE);
        assert!(answers(&question, &failure));
        assert_eq!(failure.len(), question.len());
        assert_eq!(failure[3] & 0x0f, SERVER_FAILURE);
        assert_eq!(failure[HEADER..], question[HEADER..]);
        assert_eq!(truncated(&question)[2] & 0x02, 0x02);
    }
}
