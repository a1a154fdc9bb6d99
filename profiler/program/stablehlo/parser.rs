//! Tokens to a [`Module`]: the forms in which JAX, TorchTPU and MLIR's tools print StableHLO.
//!
//! The grammar of each operation's own syntax is not spelled out. An operation ends where a line
//! begins with what can only be another one; a region is a brace whose content is operations; the
//! types are what stands after the last colon. That reads operations that are not known here too.

use std::collections::HashMap;
use std::ops::Range;

use super::lexer::{Kind, Token, tokens};
use super::module::{Function, Module};
use super::op::{Block, Op, OpId, Operand, TypeUse, Value, ValueId, is_word};
use super::signature::{signature_colon, signature_types};
use super::types::TensorType;

/// Regions nested deeper than this are skipped: no compiler writes them.
const MAX_DEPTH: usize = 64;

/// Reads a module. Text without any function gives a module without functions.
#[must_use]
pub fn parse(text: &str) -> Module<'_> {
    let tokens = tokens(text);
    let module = Module {
        text,
        functions: Vec::new(),
        ops: Vec::new(),
        values: Vec::new(),
        type_uses: Vec::new(),
    };
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        module,
        scope: HashMap::new(),
        shadowed: Vec::new(),
        line: 1,
        line_at: 0,
    };
    while let Some(token) = parser.peek() {
        if is_word(text, &token, "func.func") {
            parser.function();
        } else {
            parser.at += 1;
        }
    }
    parser.module
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    module: Module<'t>,
    /// Values by name in the function that is being read.
    scope: HashMap<String, ValueId>,
    /// What each name meant before its last definition, to be restored behind a region.
    shadowed: Vec<(String, Option<ValueId>)>,
    /// Line of byte `line_at`, for counting onwards from there.
    line: usize,
    line_at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn peek_is(&self, mark: u8) -> bool {
        self.kind_at(self.at) == Some(Kind::Mark(mark))
    }

    fn kind_at(&self, index: usize) -> Option<Kind> {
        self.tokens.get(index).map(|t| t.kind)
    }

    fn str(&self, token: &Token) -> &'t str {
        self.text.get(token.range()).unwrap_or("")
    }

    fn function(&mut self) {
        let start = self.tokens[self.at].start;
        self.at += 1;
        self.scope.clear();
        self.shadowed.clear();
        while self.peek().is_some_and(|t| t.kind == Kind::Word) {
            self.at += 1;
        }
        let Some(name) = self.peek().filter(|t| t.kind == Kind::Symbol) else {
            return;
        };
        self.at += 1;
        let (arguments, argument_attributes) = self.signature_arguments();
        let (results, result_attributes) = self.signature_results();
        // `attributes {…}` before the body; a declaration has no body.
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Mark(b'{') if self.is_region(self.at) => break,
                Kind::Mark(b'{') => self.skip_balanced(),
                Kind::Word if self.str(&token) == "func.func" => return,
                Kind::Mark(b'}') => return,
                _ => self.at += 1,
            }
        }
        let mut body = self.region(0);
        body.arguments = arguments;
        let end = self
            .tokens
            .get(self.at.wrapping_sub(1))
            .map_or(self.text.len(), |t| t.end);
        self.result_types(&body, &results);
        self.module.functions.push(Function {
            name: self.str(&name).to_owned(),
            name_range: name.range(),
            range: start..end,
            argument_attributes,
            result_attributes,
            body,
        });
    }

    /// The types in a function's signature belong to what it returns.
    fn result_types(&mut self, body: &Block, results: &[Token]) {
        let Some(returned) = self.module.returned(body) else {
            return;
        };
        let values: Vec<_> = returned.operands.iter().map(|o| o.value).collect();
        if values.len() == results.len() {
            for (value, token) in values.into_iter().zip(results) {
                self.type_use(value, token);
            }
        }
    }

    /// `(%arg0: tensor<2xf32> {attributes} loc("x"), …)`
    fn signature_arguments(&mut self) -> (Vec<ValueId>, Vec<Option<Range<usize>>>) {
        let (mut arguments, mut attributes) = (Vec::new(), Vec::new());
        if !self.peek_is(b'(') {
            return (arguments, attributes);
        }
        self.at += 1;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Mark(b')') => {
                    self.at += 1;
                    break;
                }
                Kind::Value => {
                    arguments.push(self.block_argument(&token));
                    attributes.push(None);
                    self.at += 1;
                }
                Kind::Mark(b'{') => self.attributes_into(&mut attributes),
                Kind::Mark(b'(') => self.skip_balanced(),
                _ => self.at += 1,
            }
        }
        (arguments, attributes)
    }

    /// `-> tensor<2xf32>` or `-> (tensor<2xf32> {attributes}, …)`
    fn signature_results(&mut self) -> (Vec<Token>, Vec<Option<Range<usize>>>) {
        let (mut results, mut attributes) = (Vec::new(), Vec::new());
        if self.kind_at(self.at) != Some(Kind::Arrow) {
            return (results, attributes);
        }
        self.at += 1;
        if !self.peek_is(b'(') {
            results.extend(self.peek());
            attributes.push(None);
            self.at += 1;
            return (results, attributes);
        }
        self.at += 1;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Mark(b')') => {
                    self.at += 1;
                    break;
                }
                Kind::Mark(b'{') => self.attributes_into(&mut attributes),
                Kind::Mark(b'(') => self.skip_balanced(),
                Kind::Tensor | Kind::Word if self.str(&token) != "loc" => {
                    results.push(token);
                    attributes.push(None);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        (results, attributes)
    }

    fn attributes_into(&mut self, attributes: &mut [Option<Range<usize>>]) {
        let start = self.tokens[self.at].start;
        self.skip_balanced();
        let end = self
            .tokens
            .get(self.at.wrapping_sub(1))
            .map_or(start, |t| t.end);
        if let Some(last) = attributes.last_mut() {
            *last = Some(start..end);
        }
    }

    /// Moves behind the bracket that closes the one here.
    fn skip_balanced(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            self.at += 1;
            match token.kind {
                Kind::Mark(b'(' | b'[' | b'{') => depth += 1,
                Kind::Mark(b')' | b']' | b'}') => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether the brace at `index` opens operations rather than attributes.
    fn is_region(&self, index: usize) -> bool {
        let Some(first) = self.tokens.get(index + 1) else {
            return false;
        };
        let after = self.kind_at(index + 2);
        match first.kind {
            Kind::Value | Kind::Label => true,
            Kind::Text => after == Some(Kind::Mark(b'(')),
            Kind::Word if matches!(self.str(first), "return" | "call") => {
                after.is_none_or(|k| !matches!(k, Kind::Mark(b'=' | b',' | b'}')))
            }
            Kind::Word => {
                self.str(first).contains('.')
                    && after.is_some_and(|k| !matches!(k, Kind::Mark(b'=' | b',' | b'}')))
            }
            _ => false,
        }
    }

    /// Whether an operation begins at `index`, which begins a line.
    fn begins_op(&self, index: usize) -> bool {
        let Some(token) = self.tokens.get(index) else {
            return true;
        };
        match token.kind {
            Kind::Value => true,
            Kind::Text => self.kind_at(index + 1) == Some(Kind::Mark(b'(')),
            Kind::Word => {
                let word = self.str(token);
                word.contains('.') || matches!(word, "return" | "call")
            }
            _ => false,
        }
    }

    /// The operations from the opening brace here to its closing one.
    fn region(&mut self, depth: usize) -> Block {
        let mut block = Block::default();
        if depth > MAX_DEPTH {
            self.skip_balanced();
            return block;
        }
        let outside = self.shadowed.len();
        self.at += 1;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Mark(b'}') => {
                    self.at += 1;
                    break;
                }
                Kind::Label => self.label(&mut block),
                _ if self.begins_op(self.at) => {
                    let op = self.op(depth);
                    block.ops.push(op);
                }
                _ => self.at += 1,
            }
        }
        self.leave_scope(outside);
        block
    }

    /// `^bb0(%a: tensor<f32>, …):`
    fn label(&mut self, block: &mut Block) {
        self.at += 1;
        if !self.peek_is(b'(') {
            return;
        }
        block.arguments = self.signature_arguments().0;
    }

    /// Defines the argument at `token`, whose type follows a colon.
    fn block_argument(&mut self, token: &Token) -> ValueId {
        let value = self.define(self.str(token).to_owned(), None);
        let index = self.tokens.partition_point(|t| t.start < token.start);
        if self.kind_at(index + 1) == Some(Kind::Mark(b':'))
            && let Some(tensor) = self.tokens.get(index + 2).copied()
        {
            self.type_use(value, &tensor);
        }
        value
    }

    /// Forgets what was defined since `shadowed` had this length.
    fn leave_scope(&mut self, length: usize) {
        while self.shadowed.len() > length
            && let Some((name, before)) = self.shadowed.pop()
        {
            match before {
                Some(value) => self.scope.insert(name, value),
                None => self.scope.remove(&name),
            };
        }
    }

    fn define(&mut self, name: String, maker: Option<OpId>) -> ValueId {
        let id = ValueId(self.module.values.len());
        self.module.values.push(Value {
            name: name.clone(),
            tensor: None,
            maker,
        });
        let before = self.scope.insert(name.clone(), id);
        self.shadowed.push((name, before));
        id
    }

    fn type_use(&mut self, value: ValueId, token: &Token) {
        if token.kind != Kind::Tensor {
            return;
        }
        let Some(tensor) = TensorType::read(self.text, token.range()) else {
            return;
        };
        let known = &mut self.module.values[value.0].tensor;
        if known.is_none() {
            *known = Some(tensor.clone());
        }
        self.module.type_uses.push(TypeUse { value, tensor });
    }

    fn line_of(&mut self, byte: usize) -> usize {
        let between = self
            .text
            .as_bytes()
            .get(self.line_at..byte)
            .unwrap_or_default();
        self.line += between.iter().filter(|&&b| b == b'\n').count();
        self.line_at = self.line_at.max(byte);
        self.line
    }

    fn op(&mut self, depth: usize) -> OpId {
        let start = self.tokens[self.at].start;
        let line = self.line_of(start);
        let results = self.result_names();
        let name = self
            .peek()
            .map_or("", |t| self.str(&t))
            .trim_matches('"')
            .to_owned();
        self.at += 1;
        let (header, regions) = self.op_body(depth);
        let end = self
            .tokens
            .get(self.at.wrapping_sub(1))
            .map_or(start, |t| t.end);

        let colon = signature_colon(&header);
        let callee = header
            .iter()
            .find(|t| t.kind == Kind::Symbol)
            .map(|t| self.str(t).to_owned());
        let callee = callee.filter(|_| matches!(name.as_str(), "call" | "func.call"));
        let mut operands = self.operands(header.get(..colon).unwrap_or(&header));
        if name == "stablehlo.reduce" && header.iter().any(|t| is_word(self.text, t, "init")) {
            // Printed as pairs of input and initial value; the types list inputs first.
            let (inputs, inits): (Vec<_>, Vec<_>) = operands
                .into_iter()
                .enumerate()
                .partition(|(i, _)| i % 2 == 0);
            operands = inputs.into_iter().chain(inits).map(|(_, o)| o).collect();
        }
        let id = OpId(self.module.ops.len());
        let results: Vec<_> = results
            .into_iter()
            .map(|n| self.define(n, Some(id)))
            .collect();
        let mut op = Op {
            name,
            line,
            range: start..end,
            operands,
            results,
            regions,
            callee,
            typed: false,
            header,
        };
        op.typed = self.signature(&op, colon);
        self.module.ops.push(op);
        id
    }

    /// `%a, %b =` or `%1:2 =`, as names of results.
    fn result_names(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Value => {
                    let name = self.str(&token).to_owned();
                    self.at += 1;
                    if self.peek_is(b':') {
                        self.at += 1;
                        let count = self.peek().and_then(|t| self.str(&t).parse::<usize>().ok());
                        self.at += 1;
                        // A count from a file: no more results than a text could use.
                        names.extend(
                            (0..count.unwrap_or(1).min(65_536)).map(|i| format!("{name}#{i}")),
                        );
                    } else {
                        names.push(name);
                    }
                }
                Kind::Mark(b',') => self.at += 1,
                Kind::Mark(b'=') => {
                    self.at += 1;
                    return names;
                }
                _ => return names,
            }
        }
        names
    }

    /// The rest of an operation: its own tokens, and its regions read.
    fn op_body(&mut self, depth: usize) -> (Vec<Token>, Vec<Block>) {
        let (mut header, mut regions) = (Vec::new(), Vec::new());
        let mut nesting = 0_usize;
        while let Some(token) = self.peek() {
            if nesting == 0 && token.first_of_line && self.begins_op(self.at) {
                break;
            }
            match token.kind {
                Kind::Mark(b'{') if self.is_region(self.at) => {
                    let outside = self.shadowed.len();
                    let own = self.own_arguments(&header);
                    let mut block = self.region(depth + 1);
                    if block.arguments.is_empty() {
                        block.arguments = own;
                    }
                    regions.push(block);
                    self.leave_scope(outside);
                    continue;
                }
                Kind::Mark(b'(' | b'[' | b'{') => nesting += 1,
                Kind::Mark(b')' | b']') => nesting = nesting.saturating_sub(1),
                Kind::Mark(b'}') if nesting == 0 => break,
                Kind::Mark(b'}') => nesting -= 1,
                Kind::Label if nesting == 0 => break,
                _ => {}
            }
            header.push(token);
            self.at += 1;
        }
        (header, regions)
    }

    /// Arguments of a region that stand in the operation's own line, defined for it:
    /// `while(%iterArg = %0, …)` and `reducer(%a: tensor<f32>, %b: tensor<f32>)`.
    fn own_arguments(&mut self, header: &[Token]) -> Vec<ValueId> {
        let mut out = Vec::new();
        let types = signature_types(
            self.text,
            header.get(signature_colon(header)..).unwrap_or_default(),
        );
        for pair in header.windows(2) {
            if pair[0].kind != Kind::Value {
                continue;
            }
            let name = self.str(&pair[0]);
            match pair[1].kind {
                Kind::Mark(b'=') => {
                    let value = self.define(name.to_owned(), None);
                    if let Some(Some(token)) = types.0.get(out.len()) {
                        self.type_use(value, token);
                    }
                    out.push(value);
                }
                Kind::Mark(b':') => out.push(self.block_argument(&pair[0])),
                _ => {}
            }
        }
        out
    }

    fn operands(&self, header: &[Token]) -> Vec<Operand> {
        let mut out = Vec::new();
        for (i, token) in header.iter().enumerate() {
            let next = header.get(i + 1).map(|t| t.kind);
            let defines = next == Some(Kind::Mark(b'='))
                || next == Some(Kind::Mark(b':'))
                    && header.get(i + 2).is_some_and(|t| t.kind == Kind::Tensor);
            if token.kind == Kind::Value
                && !defines
                && let Some(&value) = self.scope.get(self.str(token))
            {
                out.push(Operand {
                    value,
                    range: token.range(),
                });
            }
        }
        out
    }

    /// Gives operands and results the types written after the colon. False when the types' number
    /// is none that says which belongs to what.
    fn signature(&mut self, op: &Op, colon: usize) -> bool {
        let (left, right) = signature_types(self.text, op.header.get(colon..).unwrap_or_default());
        let operands: Vec<ValueId> = op.operands.iter().map(|o| o.value).collect();
        let mut assign = |values: &[ValueId], types: &[Option<Token>]| {
            for (value, token) in values.iter().zip(types) {
                if let Some(token) = token {
                    self.type_use(*value, token);
                }
            }
            values.len() == types.len()
        };
        if let Some(right) = right {
            let read = assign(&operands, &left);
            return assign(&op.results, &right) && read;
        }
        match (left.len(), op.short_name()) {
            (0, _) => operands.is_empty() && op.results.is_empty(),
            // The predicate's type, then that of everything else.
            (2, "select") => {
                let first = operands.first().copied();
                let last = op.results.first().copied();
                first
                    .zip(last)
                    .is_some_and(|(first, last)| assign(&[first, last], &left))
            }
            (n, "return" | "optimization_barrier" | "while") if n == operands.len() => {
                for (value, token) in op.results.iter().zip(&left) {
                    if let Some(tensor) = token.and_then(|t| TensorType::read(self.text, t.range()))
                    {
                        self.module.values[value.0].tensor.get_or_insert(tensor);
                    }
                }
                let mut assign = |value: ValueId, token: &Option<Token>| {
                    if let Some(token) = token {
                        self.type_use(value, token);
                    }
                };
                operands.iter().zip(&left).for_each(|(v, t)| assign(*v, t));
                true
            }
            // One type for all.
            (1, _) => match op.results.first().or(operands.first()) {
                Some(&value) => assign(&[value], &left),
                None => false,
            },
            _ => false,
        }
    }
}
