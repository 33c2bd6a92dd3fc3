/**
 * Every small change of a file's code that a test should notice: the operators of StrykerJS's table ("supported
 * mutators"), made on the syntax tree of what is left when the types are gone, so that no type is ever one.
 */
import { createRequire } from 'node:module'

/** `from` and `to` are places in the code without types, whose lines are those of the file. */
export type Mutant = {
  readonly from: number
  readonly to: number
  readonly line: number
  /** Which kind of change: `conditional`, `equality`, … */
  readonly operator: string
  readonly before: string
  readonly after: string
}

type Node = { readonly type: string; readonly start: number; readonly end: number; readonly [member: string]: unknown }
type Parsed = { readonly program: Node; readonly errors: readonly { readonly message: string }[] }

/** The parser knip brings along. TypeScript 7 has no JavaScript API yet, and nothing else installed here reads code. */
const parse = (code: string): Node => {
  const { parseSync } = createRequire(createRequire(import.meta.url).resolve('knip'))('oxc-parser') as {
    parseSync: (name: string, code: string) => Parsed
  }
  const { program, errors } = parseSync('file.js', code)
  if (errors[0]) throw new Error(errors[0].message)
  return program
}

/** What an operator becomes; each is a mutant of its own. */
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

/** A call of this method becomes one of that; undefined: what it is called on stands for it. */
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

/** Changes of a regular expression, each at every place where it fits. */
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

/** `code` is a file's code without its types; `typed` the same with them, place by place. */
export const mutantsOf = (code: string, typed: string): readonly Mutant[] => {
  const found: Mutant[] = []
  const add = (operator: string, { start, end }: Pick<Node, 'start' | 'end'>, after: string) => {
    const before = code.slice(start, end)
    if (before === after) return
    const line = code.slice(0, start).split('\n').length
    found.push({ from: start, to: end, line, operator, before, after })
  }
  const textOf = ({ start, end }: Node): string => code.slice(start, end)
  /** The operator between two sides. */
  const between = (operator: string, left: Node, right: Node, word: string) => {
    const at = code.indexOf(word, left.end)
    if (at === -1 || at >= right.start) throw new Error(`no ${word} between ${textOf(left)} and ${textOf(right)}`)
    for (const other of OPERATORS[word] ?? []) add(operator, { start: at, end: at + word.length }, other)
  }

  const visit = (node: Node, parent: Node | null, member: string): void => {
    const { type } = node
    if (type === 'ImportDeclaration') return
    // What the compiler has proven not to be reached.
    if (type === 'SwitchCase' && node.test === null && typed.slice(node.start, node.end).includes('satisfies never'))
      return
    switch (type) {
      case 'BinaryExpression':
      case 'LogicalExpression': {
        const { left, right, operator } = node as unknown as { left: Node; right: Node; operator: string }
        // A string is put together with `+` as well, and cannot be with `-`.
        const kind = type === 'LogicalExpression' ? 'logical' : /^[<>=!]/.test(operator) ? 'equality' : 'arithmetic'
        between(kind, left, right, operator)
        break
      }
      case 'AssignmentExpression': {
        const { left, right, operator } = node as unknown as { left: Node; right: Node; operator: string }
        if (operator in OPERATORS) between('assignment', left, right, operator)
        break
      }
      case 'UnaryExpression': {
        const { argument, operator } = node as unknown as { argument: Node; operator: string }
        if (operator === '!' || operator === '-') add('unary', node, textOf(argument))
        break
      }
      case 'UpdateExpression': {
        const { argument, operator, prefix } = node as unknown as { argument: Node; operator: string; prefix: boolean }
        const [other = ''] = OPERATORS[operator] ?? []
        add('update', node, prefix ? `${other}${textOf(argument)}` : `${textOf(argument)}${other}`)
        break
      }
      case 'ConditionalExpression':
      case 'IfStatement':
      case 'WhileStatement':
      case 'DoWhileStatement':
      case 'ForStatement': {
        if (!isNode(node.test)) break
        add('conditional', node.test, 'false')
        if (type === 'ConditionalExpression' || type === 'IfStatement') add('conditional', node.test, 'true')
        break
      }
      case 'Literal': {
        const isKey = member === 'key' && parent?.computed !== true
        if (typeof node.value === 'boolean') add('boolean', node, String(!node.value))
        else if (typeof node.value === 'string' && !isKey) add('string', node, node.value === '' ? "'mutated'" : "''")
        else if (isPattern(node.regex)) {
          const { pattern, flags } = node.regex
          for (const [mark, after] of PATTERNS)
            for (const match of pattern.matchAll(mark)) {
              const changed = pattern.slice(0, match.index) + after + pattern.slice(match.index + match[0].length)
              if (isValid(changed, flags)) add('regex', node, `/${changed}/${flags}`)
            }
        }
        break
      }
      case 'TemplateLiteral':
        add('string', node, node.start + 2 === node.end ? "'mutated'" : '``')
        break
      case 'ArrayExpression':
        add('array', node, childrenOf(node).length === 0 ? "['mutated']" : '[]')
        break
      case 'ObjectExpression':
        if (childrenOf(node).length > 0) add('object', node, '{}')
        break
      case 'ArrowFunctionExpression':
        if (isNode(node.body) && node.body.type !== 'BlockStatement') add('arrow', node.body, 'undefined')
        break
      case 'BlockStatement':
        if (childrenOf(node).length > 0) add('block', node, '{}')
        break
      case 'MemberExpression':
        if (node.optional === true && isNode(node.object)) {
          const at = code.indexOf('?.', node.object.end)
          const indexed = node.computed === true
          add('optional', { start: at, end: at + 2 }, indexed ? '' : '.')
        }
        break
      case 'CallExpression': {
        const { callee } = node
        if (!isNode(callee) || callee.type !== 'MemberExpression') break
        if (!isNode(callee.property) || !isNode(callee.object) || callee.computed === true) break
        const name = textOf(callee.property)
        if (!Object.hasOwn(METHODS, name)) break
        const other = METHODS[name]
        if (other !== undefined) add('method', callee.property, other)
        else add('method', node, textOf(callee.object))
        break
      }
      default:
    }
    for (const [at, child] of childrenOf(node)) visit(child, node, at)
  }
  visit(parse(code), null, '')
  return found
}

type Pattern = { readonly pattern: string; readonly flags: string }
const isPattern = (value: unknown): value is Pattern =>
  typeof value === 'object' && value !== null && 'pattern' in value && 'flags' in value

const isValid = (pattern: string, flags: string): boolean => {
  try {
    return new RegExp(pattern, flags) instanceof RegExp
  } catch {
    // Nothing to repeat, or a class that is not closed: no program any more.
    return false
  }
}
