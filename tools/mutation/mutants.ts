/**
 * Generates the mutants of a file: small changes by the operators in StrykerJS's table ("supported mutators"). They are
 * made on the syntax tree of the code without its types, so that types are never mutated.
 */
import { createRequire } from 'node:module'

/** `from` and `to` are offsets in the code without types, which has the same lines as the file. */
export type Mutant = {
  readonly from: number
  readonly to: number
  readonly line: number
  /** The kind of change: `conditional`, `equality`, … */
  readonly operator: string
  readonly before: string
  readonly after: string
}

type Node = { readonly type: string; readonly start: number; readonly end: number; readonly [member: string]: unknown }
type Parsed = { readonly program: Node; readonly errors: readonly { readonly message: string }[] }

/** Uses the parser that knip depends on: TypeScript 7 has no JavaScript API yet. */
const parse = (code: string): Node => {
  const { parseSync } = createRequire(createRequire(import.meta.url).resolve('knip'))('oxc-parser') as {
    parseSync: (name: string, code: string) => Parsed
  }
  const { program, errors } = parseSync('file.js', code)
  if (errors[0]) throw new Error(errors[0].message)
  return program
}

/** Replacements of an operator; each is a separate mutant. */
const OPERATORS: { readonly [operator: string]: readonly string[] } = {
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '**': ['*'],
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '&&': ['||'],
  '||': ['&&'],
  '??': ['&&'],
  '+=': ['-='],
  '-=': ['+='],
  '*=': ['/='],
  '/=': ['*='],
  '??=': ['&&='],
  '||=': ['&&='],
  '&&=': ['||='],
  '++': ['--'],
  '--': ['++'],
  '>>>': ['<<'],
  '<<': ['>>>'],
  '>>': ['<<'],
  '&': ['|'],
  '|': ['&'],
  '^': ['&'],
}

/** Replacements of a method; undefined: the call is replaced by its object. */
const METHODS: { readonly [name: string]: string | undefined } = {
  some: 'every',
  every: 'some',
  startsWith: 'endsWith',
  endsWith: 'startsWith',
  toLowerCase: 'toUpperCase',
  min: 'max',
  max: 'min',
  floor: 'ceil',
  ceil: 'floor',
  round: 'floor',
  filter: undefined,
  slice: undefined,
  sort: undefined,
  toSorted: undefined,
  reverse: undefined,
  trim: undefined,
  toReversed: undefined,
}

/** Changes of a regular expression, each applied at every match. */
const PATTERNS: readonly (readonly [mark: RegExp, after: string])[] = [
  [/^\^/g, ''],
  [/(?<=\|)\^/g, ''],
  [/(?<!\\)\$$/g, ''],
  [/(?<!\\)\[(?!\^)/g, '[^'],
  [/(?<!\\)\[\^/g, '['],
  [/(?<=[\])\w])[+*?]/g, ''],
  [/\\d/g, '\\D'],
  [/\\b/g, ''],
  [/(?<=[\])\w])\{\d+(?:,\d*)?\}/g, ''],
]

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value && 'end' in value

const childrenOf = (node: Node): readonly (readonly [member: string, child: Node])[] =>
  Object.entries(node).flatMap(([member, value]) =>
    (Array.isArray(value) ? value : [value]).filter(isNode).map((child) => [member, child] as const),
  )

/** Adds a mutant that replaces a range of the code. */
type Add = (operator: string, range: Pick<Node, 'start' | 'end'>, after: string) => void
type Context = { readonly code: string; readonly add: Add; readonly parent: Node | null; readonly member: string }
type Operator = (node: Node, context: Context) => void

const textOf = (code: string, { start, end }: Node): string => code.slice(start, end)

/** The mutants of a file. `code`: without types; `typed`: the original, with the same offsets. */
export const mutantsOf = (code: string, typed: string): readonly Mutant[] => {
  const found: Mutant[] = []
  const add: Add = (operator, { start, end }, after) => {
    const before = code.slice(start, end)
    if (before === after) return
    const line = code.slice(0, start).split('\n').length
    found.push({ from: start, to: end, line, operator, before, after })
  }
  const visit = (node: Node, parent: Node | null, member: string): void => {
    const { type } = node
    if (type === 'ImportDeclaration') return
    // The compiler has proven that this case is unreachable.
    if (type === 'SwitchCase' && node.test === null && typed.slice(node.start, node.end).includes('satisfies never'))
      return
    if (Object.hasOwn(MUTATE, type)) MUTATE[type]?.(node, { code, add, parent, member })
    for (const [at, child] of childrenOf(node)) visit(child, node, at)
  }
  visit(parse(code), null, '')
  return found
}

/** Replaces the operator between two operands. */
const mutateInfix = (kind: string, node: Node, { code, add }: Context): void => {
  // A node with an infix operator has these members.
  const { left, right, operator } = node as unknown as { left: Node; right: Node; operator: string }
  const at = code.indexOf(operator, left.end)
  if (at === -1 || at >= right.start)
    throw new Error(`no ${operator} between ${textOf(code, left)} and ${textOf(code, right)}`)
  for (const other of OPERATORS[operator] ?? []) add(kind, { start: at, end: at + operator.length }, other)
}

const mutateLoop: Operator = ({ test }, { add }) => {
  if (isNode(test)) add('conditional', test, 'false')
}

const mutateCondition: Operator = (node, context) => {
  mutateLoop(node, context)
  if (isNode(node.test)) context.add('conditional', node.test, 'true')
}

const mutateLiteral: Operator = (node, { add, parent, member }) => {
  const isKey = member === 'key' && parent?.computed !== true
  if (typeof node.value === 'boolean') add('boolean', node, String(!node.value))
  else if (typeof node.value === 'string' && !isKey) add('string', node, node.value === '' ? "'mutated'" : "''")
  else if (isPattern(node.regex)) for (const changed of changedPatterns(node.regex)) add('regex', node, changed)
}

const changedPatterns = ({ pattern, flags }: Pattern): readonly string[] =>
  PATTERNS.flatMap(([mark, after]) =>
    Array.from(
      pattern.matchAll(mark),
      ({ 0: matched, index }) => pattern.slice(0, index) + after + pattern.slice(index + matched.length),
    ),
  )
    .filter((changed) => isValid(changed, flags))
    .map((changed) => `/${changed}/${flags}`)

const mutateCall: Operator = (node, { code, add }) => {
  const { callee } = node
  if (!isNode(callee) || callee.type !== 'MemberExpression') return
  if (!isNode(callee.property) || !isNode(callee.object) || callee.computed === true) return
  const name = textOf(code, callee.property)
  if (!Object.hasOwn(METHODS, name)) return
  const other = METHODS[name]
  if (other !== undefined) add('method', callee.property, other)
  else add('method', node, textOf(code, callee.object))
}

/** The mutations by type of syntax node. */
const MUTATE: { readonly [type: string]: Operator } = {
  BinaryExpression: (node, context) =>
    mutateInfix(/^[<>=!]/.test(String(node.operator)) ? 'equality' : 'arithmetic', node, context),
  LogicalExpression: (node, context) => mutateInfix('logical', node, context),
  AssignmentExpression: (node, context) => {
    if (String(node.operator) in OPERATORS) mutateInfix('assignment', node, context)
  },
  UnaryExpression: (node, { code, add }) => {
    const { argument, operator } = node
    if (isNode(argument) && (operator === '!' || operator === '-')) add('unary', node, textOf(code, argument))
  },
  UpdateExpression: (node, { code, add }) => {
    const { argument, operator, prefix } = node
    if (!isNode(argument)) return
    const [other = ''] = OPERATORS[String(operator)] ?? []
    const operand = textOf(code, argument)
    add('update', node, prefix === true ? other + operand : operand + other)
  },
  ConditionalExpression: mutateCondition,
  IfStatement: mutateCondition,
  WhileStatement: mutateLoop,
  DoWhileStatement: mutateLoop,
  ForStatement: mutateLoop,
  Literal: mutateLiteral,
  TemplateLiteral: (node, { add }) => add('string', node, node.start + 2 === node.end ? "'mutated'" : '``'),
  ArrayExpression: (node, { add }) => add('array', node, childrenOf(node).length === 0 ? "['mutated']" : '[]'),
  ObjectExpression: (node, { add }) => {
    if (childrenOf(node).length > 0) add('object', node, '{}')
  },
  ArrowFunctionExpression: ({ body }, { add }) => {
    if (isNode(body) && body.type !== 'BlockStatement') add('arrow', body, 'undefined')
  },
  BlockStatement: (node, { add }) => {
    if (childrenOf(node).length > 0) add('block', node, '{}')
  },
  MemberExpression: (node, { code, add }) => {
    if (node.optional !== true || !isNode(node.object)) return
    const at = code.indexOf('?.', node.object.end)
    add('optional', { start: at, end: at + 2 }, node.computed === true ? '' : '.')
  },
  CallExpression: mutateCall,
}

type Pattern = { readonly pattern: string; readonly flags: string }
const isPattern = (value: unknown): value is Pattern =>
  typeof value === 'object' && value !== null && 'pattern' in value && 'flags' in value

const isValid = (pattern: string, flags: string): boolean => {
  try {
    return new RegExp(pattern, flags) instanceof RegExp
  } catch {
    // For example, nothing to repeat or an unclosed class: the mutant would not compile.
    return false
  }
}
