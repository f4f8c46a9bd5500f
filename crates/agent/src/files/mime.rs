//! What a binary file is, told from its first bytes, else from its name.

use std::path::Path;

/// Of the first bytes this many decide.
pub(super) const SAMPLE_BYTES: usize = 4 << 10;

/// Whether these first bytes are of a file that is not text: a NUL byte, or more than 30 % of
/// bytes that cannot be shown.
pub(super) fn is_binary(sample: &[u8]) -> bool {
    if memchr::memchr(0, sample).is_some() {
        return true;
    }
    let unshowable: usize = sample
        .utf8_chunks()
        .map(|chunk| {
            let control = chunk.valid().bytes().filter(|byte| is_control(*byte)).count();
            control + chunk.invalid().len()
        })
        .sum();
    unshowable * 10 > sample.len() * 3
}

/// Tab, line feed, vertical tab, form feed and carriage return are text.
fn is_control(byte: u8) -> bool {
    byte < 9 || (14..32).contains(&byte) || byte == 127
}

/// The media type of a binary file.
pub(super) fn of(path: &Path, sample: &[u8]) -> &'static str {
    let by_magic = MAGIC.iter().find(|magic| magic.matches(sample)).map(|magic| magic.mime);
    let by_name = || {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, mime)| *mime)
    };
    by_magic.or_else(by_name).unwrap_or("application/octet-stream")
}

struct Magic {
    offset: usize,
    bytes: &'static [u8],
    mime: &'static str,
}

impl Magic {
    fn matches(&self, sample: &[u8]) -> bool {
        sample.get(self.offset..).is_some_and(|rest| rest.starts_with(self.bytes))
    }
}

const fn magic(offset: usize, bytes: &'static [u8], mime: &'static str) -> Magic {
    Magic { offset, bytes, mime }
}

const MAGIC: &[Magic] = &[
    magic(0, b"\x89PNG\r\n\x1a\n", "image/png"),
    magic(0, b"\xff\xd8\xff", "image/jpeg"),
    magic(0, b"GIF8", "image/gif"),
    magic(8, b"WEBP", "image/webp"),
    magic(8, b"WAVE", "audio/wav"),
    magic(0, b"BM", "image/bmp"),
    magic(0, b"\0\0\x01\0", "image/x-icon"),
    magic(0, b"II*\0", "image/tiff"),
    magic(0, b"MM\0*", "image/tiff"),
    magic(4, b"ftypavif", "image/avif"),
    magic(4, b"ftypheic", "image/heic"),
    magic(4, b"ftyp", "video/mp4"),
    magic(0, b"\x1a\x45\xdf\xa3", "video/webm"),
    magic(0, b"OggS", "audio/ogg"),
    magic(0, b"ID3", "audio/mpeg"),
    magic(0, b"fLaC", "audio/flac"),
    magic(0, b"%PDF-", "application/pdf"),
    magic(0, b"PK\x03\x04", "application/zip"),
    magic(0, b"\x1f\x8b", "application/gzip"),
    magic(0, b"BZh", "application/x-bzip2"),
    magic(0, b"\xfd7zXZ\0", "application/x-xz"),
    magic(0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    magic(0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    magic(257, b"ustar", "application/x-tar"),
    magic(0, b"\x7fELF", "application/x-elf"),
    magic(0, b"\0asm", "application/wasm"),
    magic(0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    magic(0, b"\xca\xfe\xba\xbe", "application/java-vm"),
    magic(0, b"wOFF", "font/woff"),
    magic(0, b"wOF2", "font/woff2"),
    magic(0, b"\0\x01\0\0\0", "font/ttf"),
    magic(0, b"OTTO", "font/otf"),
];

const EXTENSIONS: &[(&str, &str)] = &[
    ("bin", "application/octet-stream"),
    ("class", "application/java-vm"),
    ("db", "application/octet-stream"),
    ("exe", "application/vnd.microsoft.portable-executable"),
    ("mp3", "audio/mpeg"),
    ("o", "application/x-object"),
    ("pyc", "application/x-python-code"),
    ("tar", "application/x-tar"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_in_every_language() {
        let check = |bytes: &[u8], expect: bool| {
            assert_eq!(is_binary(bytes), expect, "{:?}", String::from_utf8_lossy(bytes));
        };
        check(b"", false);
        check(b"plain\ttext\r\n", false);
        check("日本語のテキスト".as_bytes(), false);
        check("ünïcödé".as_bytes(), false);
        check(b"caf\xe9 au lait in latin-1", false);
        check(b"\x1b[31mred\x1b[0m text", false);
        check(b"one\0nul", true);
        check(b"\x01\x02\x03abcdef", true);
        check(b"\x01\x02\x03abcdefg", false);
        check(b"\xff\xfe\xfd\xfcab", true);
        // A character cut at the end of the sample.
        check(&"äöüß".as_bytes()[..7], false);
    }

    #[test]
    fn bytes_say_more_than_names() {
        let check = |name: &str, bytes: &[u8], expect: &str| assert_eq!(of(Path::new(name), bytes), expect);
        check("a.txt", b"\x89PNG\r\n\x1a\n\0", "image/png");
        check("a.webp", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp");
        check("a.PYC", b"\xa7\r\r\n\0\0", "application/x-python-code");
        check("a", b"\x03\0\x01", "application/octet-stream");
        check("a", b"", "application/octet-stream");
    }
}
