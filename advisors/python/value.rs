//! What is known of the value of an expression.

/// How sure it is that an expression is a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The names and the shape of the code suggest it.
    Likely,
    /// It follows from the code, if the libraries are what they are called.
    Certain,
}

/// Whose tensor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// PyTorch, by whatever path to the TPU.
    Torch,
    /// JAX.
    Jax,
}

/// A tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Whose.
    pub framework: Framework,
    /// How sure.
    pub certainty: Certainty,
    /// Whether it is known to be in the host's memory: reading it there costs nothing.
    pub on_host: bool,
}

impl Tensor {
    /// A tensor that may be on the device.
    pub(super) const fn new(framework: Framework, certainty: Certainty) -> Self {
        Self {
            framework,
            certainty,
            on_host: false,
        }
    }

    pub(super) fn likely(mut self) -> Self {
        self.certainty = Certainty::Likely;
        self
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Unknown,
    /// A Python number, string, flag, shape or NumPy array.
    Host,
    /// `None` or a number that is written out: the start of a sum.
    Literal,
    /// A tensor.
    Tensor(Tensor),
    /// A tuple, list, dict or tree of tensors.
    Many(Tensor),
    /// What a module returns: a tensor, or a record of tensors.
    Output(Tensor),
    /// A module of a network, to be called.
    Module(Framework),
    /// A loader; `device` where its batches are on the device already.
    Loader {
        /// Whether its batches are on the device.
        device: bool,
    },
    /// An optimizer.
    Optimizer,
    /// A function that the device runs: made by `jax.jit`, `torch.compile`.
    Compiled(Framework),
}

impl Value {
    /// The tensor that it is; that an output is one is likely at best.
    pub(super) fn tensor(self) -> Option<Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Output(tensor) => Some(tensor.likely()),
            _ => None,
        }
    }

    /// The tensor in it, however deep.
    pub(super) fn inner(self) -> Option<Tensor> {
        match self {
            Self::Tensor(tensor) | Self::Output(tensor) | Self::Many(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// What iterating over it, or taking an item of it, gives.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Tensor(tensor) => Self::Tensor(tensor),
            Self::Many(tensor) => Self::Output(tensor),
            Self::Output(tensor) => Self::Tensor(tensor.likely()),
            Self::Loader { device } => Self::Many(Tensor {
                framework: Framework::Torch,
                certainty: Certainty::Likely,
                on_host: !device,
            }),
            Self::Host | Self::Literal => Self::Host,
            Self::Unknown | Self::Module(_) | Self::Optimizer | Self::Compiled(_) => Self::Unknown,
        }
    }

    /// What it is where it is one of two.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Tensor(a), Self::Tensor(b)) => Self::Tensor(either(a, b)),
            (Self::Many(a), Self::Many(b)) => Self::Many(either(a, b)),
            (Self::Output(a), Self::Output(b) | Self::Tensor(b))
            | (Self::Tensor(a), Self::Output(b)) => Self::Output(either(a, b)),
            (Self::Literal, Self::Tensor(tensor)) | (Self::Tensor(tensor), Self::Literal) => {
                Self::Tensor(tensor.likely())
            }
            (Self::Literal, value) | (value, Self::Literal) => value,
            _ => Self::Unknown,
        }
    }
}

fn either(a: Tensor, b: Tensor) -> Tensor {
    Tensor {
        framework: a.framework,
        certainty: a.certainty.min(b.certainty),
        on_host: a.on_host && b.on_host,
    }
}
