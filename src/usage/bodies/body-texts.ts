/** The text of kept bodies as a reader sees it: JSON decoded, and the pieces of a stream joined. Pure. */
import type { StoredBodies, StoredBody } from './recorded-calls.ts'

/** Members of events that have a piece of a text, of all API styles. */
const PIECES: ReadonlySet<string> = new Set([
  ...['content', 'text', 'delta', 'refusal', 'output'],
  ...['thinking', 'reasoning', 'reasoning_content', 'arguments', 'partial_json'],
])

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The strings within a value in their order, without recursion. `names`: those of the members that count; null: all. */
const stringsIn = (value: unknown, names: ReadonlySet<string> | null): readonly string[] => {
  const found: string[] = []
  const left: (readonly [name: string, value: unknown])[] = [['', value]]
  for (let next = left.pop(); next; next = left.pop()) {
    const [name, one] = next
    if (typeof one === 'string' && (names === null || names.has(name))) found.push(one)
    // The items of a list have its name.
    else if (Array.isArray(one)) for (const item of one.toReversed()) left.push([name, item])
    else if (typeof one === 'object' && one !== null) left.push(...Object.entries(one).toReversed())
  }
  return found
}

/** What is left of a cut text: its escapes are those of JSON. */
const unescaped = (text: string): string =>
  text.replace(/\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])/g, (one) => String(parsed(`"${one}"`)))

const textOf = ({ text }: StoredBody): string => {
  if (text === null) return ''
  const whole = parsed(text)
  if (whole !== undefined) return stringsIn(whole, null).join('\n')
  const events = text.split(/\r?\n/).flatMap((line) => parsed(line.replace(/^data:/, '')) ?? [])
  return events.length > 0 ? stringsIn(events, PIECES).join('') : unescaped(text)
}

/** Spaces and line breaks are alike, and cases are. */
export const searchable = (text: string): string => text.replace(/\s+/g, ' ').toLowerCase()

/** Whether the request of a client, or an answer to it, contains a text. `wanted`: as `searchable` returns it. */
export const contains = ({ request, attempts }: StoredBodies, wanted: string): boolean =>
  [request, ...attempts.map(({ answer }) => answer)].some((body) => searchable(textOf(body)).includes(wanted))
