//! Arrays between the tool and a worker that runs programs, and the worker's side of it.

use serde::{Deserialize, Serialize};

use super::options::CompileOptions;
use super::pjrt::{Client, HostArray, Loaded, PjrtError, PjrtResult, Plugin};
use crate::program::dtype::DType;

/// Programs that a worker keeps ready: those of one comparison.
const MAX_LOADED: usize = 4;

/// `PJRT_Buffer_Type` by element type, as `pjrt_c_api.h` numbers them.
const BUFFER_TYPES: [(DType, i32); 20] = [
    (DType::Pred, 1),
    (DType::S8, 2),
    (DType::S16, 3),
    (DType::S32, 4),
    (DType::S64, 5),
    (DType::U8, 6),
    (DType::U16, 7),
    (DType::U32, 8),
    (DType::U64, 9),
    (DType::F16, 10),
    (DType::F32, 11),
    (DType::F64, 12),
    (DType::Bf16, 13),
    (DType::F8E5M2, 16),
    (DType::F8E4M3Fn, 17),
    (DType::F8E4M3B11Fnuz, 18),
    (DType::F8E5M2Fnuz, 19),
    (DType::F8E4M3Fnuz, 20),
    (DType::F8E4M3, 26),
    (DType::F8E3M4, 27),
];

/// PJRT's number of an element type; none for types that are not exchanged.
#[must_use]
pub fn buffer_type(dtype: DType) -> Option<i32> {
    let row = BUFFER_TYPES.iter().find(|(known, _)| *known == dtype);
    row.map(|(_, kind)| *kind)
}

/// The element type that PJRT numbers so.
#[must_use]
pub fn element_type(kind: i32) -> Option<DType> {
    let row = BUFFER_TYPES.iter().find(|(_, known)| *known == kind);
    row.map(|(dtype, _)| *dtype)
}

/// An array whose bytes stand in the body of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayHeader {
    /// `PJRT_Buffer_Type`.
    pub kind: i32,
    /// Its dimensions, major first.
    pub dimensions: Vec<i64>,
    /// How many bytes of the body are its own.
    pub bytes: u64,
}

/// Appends arrays to a body.
pub fn pack<'a>(
    arrays: impl IntoIterator<Item = &'a HostArray>,
    body: &mut Vec<u8>,
) -> Vec<ArrayHeader> {
    let header = |array: &HostArray| {
        body.extend_from_slice(&array.bytes);
        ArrayHeader {
            kind: array.kind,
            dimensions: array.dimensions.clone(),
            bytes: array.bytes.len() as u64,
        }
    };
    arrays.into_iter().map(header).collect()
}

/// Takes arrays from a body; none where it is too short.
#[must_use]
pub fn unpack(headers: &[ArrayHeader], body: &[u8]) -> Option<Vec<HostArray>> {
    let mut rest = body;
    let array = |header: &ArrayHeader| {
        let (bytes, after) = rest.split_at_checked(usize::try_from(header.bytes).ok()?)?;
        rest = after;
        Some(HostArray {
            kind: header.kind,
            dimensions: header.dimensions.clone(),
            bytes: bytes.to_vec(),
        })
    };
    headers.iter().map(array).collect()
}

/// The programs that a worker has run last, on the plugin's own devices.
#[derive(Default)]
pub(super) struct Runs {
    // Programs are dropped before the client that they belong to.
    loaded: Vec<Ready>,
    client: Option<Client>,
}

struct Ready {
    format: String,
    options: CompileOptions,
    code: Vec<u8>,
    program: Loaded,
}

impl Runs {
    /// Runs a program, compiling it first unless it was among the last ones.
    pub(super) fn run(
        &mut self,
        plugin: Plugin,
        format: &str,
        options: &CompileOptions,
        code: &[u8],
        arguments: &[HostArray],
    ) -> PjrtResult<Vec<HostArray>> {
        let client = match self.client.take() {
            Some(client) => client,
            None => plugin.client()?,
        };
        let client = self.client.insert(client);
        let known = self.loaded.iter().position(|ready| {
            ready.code == code && ready.format == format && ready.options == *options
        });
        let ready = match known {
            Some(index) => self.loaded.remove(index),
            None => Ready {
                format: format.to_owned(),
                options: options.clone(),
                code: code.to_vec(),
                program: client.compile(format, code, &options.to_proto())?,
            },
        };
        self.loaded.insert(0, ready);
        self.loaded.truncate(MAX_LOADED);
        match self.loaded.first() {
            Some(ready) => client.run(&ready.program, arguments),
            None => Err(malformed()),
        }
    }
}

/// The error of a body that does not hold what its header says.
pub(super) fn malformed() -> PjrtError {
    PjrtError {
        code: 3,
        message: "the request's body is shorter than its header says".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_back() {
        let arrays = [
            HostArray {
                kind: 11,
                dimensions: vec![2],
                bytes: vec![1; 8],
            },
            HostArray {
                kind: 4,
                dimensions: vec![],
                bytes: vec![2; 4],
            },
        ];
        let mut body = Vec::new();
        let headers = pack(&arrays, &mut body);
        assert_eq!(unpack(&headers, &body).expect("whole"), arrays);
        for cut in 0..body.len() {
            assert_eq!(unpack(&headers, &body[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn element_types_have_numbers_of_their_own() {
        for (dtype, kind) in BUFFER_TYPES {
            assert_eq!(buffer_type(dtype), Some(kind));
            assert_eq!(element_type(kind), Some(dtype));
        }
        assert_eq!(element_type(0), None);
    }
}
