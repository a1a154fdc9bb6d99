//! What is said between the tool and a compiler in a process of its own.
//!
//! A frame is a header as JSON and a body of raw bytes: two little-endian lengths (4 bytes for the
//! header, 8 for the body), the header, the body. Either side may be hostile or dying, so lengths
//! are limited before anything is allocated.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::compiled::CompiledMemory;
use super::options::CompileOptions;
use super::run::ArrayHeader;

/// Bytes of a header, at most.
const MAX_HEADER_BYTES: u32 = 64 << 20;
/// Bytes of a body, at most.
const MAX_BODY_BYTES: u64 = 4 << 30;

/// What a worker is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Compile the body.
    Compile {
        /// Topology as the compiler names it.
        topology: String,
        /// Whether two TensorCores act as one device where the compiler would count two (v4).
        megacore: bool,
        /// PJRT's name of the body's format.
        format: String,
        /// How.
        options: CompileOptions,
    },
    /// Describe a topology.
    Topology {
        /// Topology as the compiler names it.
        topology: String,
        /// As above.
        megacore: bool,
    },
    /// Run a program on the plugin's own first device: the body is the program and its arguments.
    Run {
        /// PJRT's name of the program's format.
        format: String,
        /// How it is compiled.
        options: CompileOptions,
        /// Bytes of the program.
        code_bytes: u64,
        /// What follows it in the body.
        arguments: Vec<ArrayHeader>,
    },
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// The plugin is loaded.
    Ready {
        /// PJRT C API, as `0.116`.
        pjrt: String,
        /// What the plugin says of itself.
        attributes: Vec<(String, String)>,
    },
    /// The body is the optimized program.
    Compiled {
        /// Memory on one device.
        memory: CompiledMemory,
        /// XLA's own FLOP count.
        flops: Option<f64>,
        /// XLA's own count of bytes accessed.
        bytes_accessed: Option<f64>,
        /// Memory that this process holds now, in bytes.
        resident_bytes: u64,
    },
    /// A topology's description.
    Topology {
        /// Devices.
        devices: u64,
        /// The kind of the first one, as `TPU v6 lite`.
        kind: String,
        /// What the platform says of itself.
        platform: String,
        /// Usable HBM of a device in bytes, where the compiler says.
        hbm_bytes: Option<u64>,
    },
    /// The body is a program's results.
    Ran {
        /// What they are.
        results: Vec<ArrayHeader>,
        /// Memory that this process holds now, in bytes.
        resident_bytes: u64,
    },
    /// It did not work, and the worker is well.
    Failed {
        /// As in `absl::StatusCode`.
        code: i32,
        /// The plugin's own words.
        message: String,
    },
}

/// Writes a frame.
///
/// # Errors
/// When the other side is gone.
pub fn write_frame(out: &mut impl Write, header: &impl Serialize, body: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let length =
        u32::try_from(header.len()).map_err(|_| too_long("header", header.len() as u64))?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&(body.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    out.write_all(body)?;
    out.flush()
}

/// Reads a frame; nothing at the end of the stream.
///
/// # Errors
/// When the frame is cut, too long, or no JSON.
pub fn read_frame<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0u8; 12];
    let first = input.read(&mut lengths)?;
    if first == 0 {
        return Ok(None);
    }
    input.read_exact(&mut lengths[first..])?;
    let [a, b, c, d, body @ ..] = lengths;
    let header_bytes = u32::from_le_bytes([a, b, c, d]);
    let body_bytes = u64::from_le_bytes(body);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(too_long("header", u64::from(header_bytes)));
    }
    if body_bytes > MAX_BODY_BYTES {
        return Err(too_long("body", body_bytes));
    }
    let header = read_exactly(input, u64::from(header_bytes))?;
    let body = read_exactly(input, body_bytes)?;
    Ok(Some((serde_json::from_slice(&header)?, body)))
}

/// Reads that many bytes, and allocates no more than come.
fn read_exactly(input: &mut impl Read, bytes: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    input.take(bytes).read_to_end(&mut out)?;
    if (out.len() as u64) < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(out)
}

fn too_long(what: &str, bytes: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a {what} of {bytes} bytes is more than the protocol allows"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back() {
        let request = Request::Topology {
            topology: "v6e:2x2".to_owned(),
            megacore: false,
        };
        let mut wire = Vec::new();
        write_frame(&mut wire, &request, b"body").expect("a vector takes all");
        write_frame(&mut wire, &request, b"").expect("a vector takes all");
        let mut input = wire.as_slice();
        let frame = read_frame::<Request>(&mut input).expect("whole");
        assert_eq!(frame, Some((request, b"body".to_vec())));
        assert!(read_frame::<Request>(&mut input).expect("whole").is_some());
        assert!(read_frame::<Request>(&mut input).expect("end").is_none());
        for cut in 1..wire.len() / 2 {
            assert!(read_frame::<Request>(&mut &wire[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_anything_is_allocated() {
        assert!(read_frame::<Request>(&mut [0xff; 64].as_slice()).is_err());
        let mut long = 2u32.to_le_bytes().to_vec();
        long.extend((3u64 << 30).to_le_bytes());
        long.extend(b"{}");
        assert!(read_frame::<Request>(&mut long.as_slice()).is_err());
    }
}
