/** Masks the texts of a recorded answer, also those that are spread over the events of a stream. */
import { splitEvents } from '../../suite/faults.ts'
import { isList, isObject, type Json, readJson } from '../core/json.ts'
import type { ExchangeMasks } from './masking.ts'

/** A text of an event, and the way to replace it. `channel`: texts with the same one continue each other. */
type Leaf = {
  readonly channel: string
  /** That of its member. */
  readonly name: string
  readonly text: string
  readonly frame: number
  readonly set: (text: string) => void
}

/** `raw`: a piece that is not JSON, which is masked as one text. */
type TapedPiece = {
  readonly lines: readonly string[]
  readonly values: Map<number, Json>
  raw: boolean
  isChanged: boolean
}

/** Members by which events of one stream continue different texts. */
const PLACES = ['index', 'output_index', 'content_index', 'summary_index', 'item_id'] as const

/** Made by the vendor, letter by letter the same in each event: no person writes them. */
const VENDOR_MADE: ReadonlySet<string> = new Set([
  ...['id', 'object', 'model', 'role', 'type', 'status', 'item_id', 'call_id', 'tool_call_id', 'response_id'],
  ...['obfuscation', 'system_fingerprint', 'service_tier', 'signature', 'thoughtSignature', 'encrypted_content'],
])

/** The pieces of an answer, cut where an event or a line of a stream ends. */
export const framesOf = (text: string, type: string): readonly string[] => {
  if (type.includes('ndjson')) return text.split(/(?<=\n)(?!$)/)
  return type.includes('event-stream') ? splitEvents(text) : [text]
}

/** The pieces with masks, and all texts of the answer, each joined from its pieces. A piece without a found text is unchanged. */
export const maskedAnswer = (
  pieces: readonly string[],
  masks: ExchangeMasks,
): { readonly pieces: readonly string[]; readonly texts: readonly string[] } => {
  const frames = pieces.map(read)
  const channels = new Map<string, Leaf[]>()
  for (const [at, frame] of frames.entries())
    for (const value of frame.values.values())
      for (const leaf of leavesOf(value, at)) {
        const known = channels.get(leaf.channel)
        if (known) known.push(leaf)
        else channels.set(leaf.channel, [leaf])
      }
  const texts = pieces.filter((_, at) => frames[at]?.raw)
  for (const leaves of channels.values()) {
    const text = leaves.map((leaf) => leaf.text).join('')
    texts.push(text)
    if (VENDOR_MADE.has(leaves[0]?.name ?? '')) continue
    const spans = masks.spans(text)
    if (spans.length > 0) mask(leaves, spans, frames)
  }
  const masked = frames.map((frame, at) => {
    const own = pieces[at] ?? ''
    if (frame.raw) return masks.replaced(own)
    return frame.isChanged ? written(frame) : own
  })
  return { pieces: masked, texts }
}

const read = (piece: string): TapedPiece => {
  const lines = piece.split('\n')
  const values = new Map<number, Json>()
  let raw = false
  const put = (at: number, text: string) => {
    // Comments, blank lines and OpenAI's last event.
    if (text.trim() === '' || text.trim() === '[DONE]') return
    const value = readJson(text)
    if (value === undefined) raw = true
    else values.set(at, value)
  }
  if (!/^(?:data|event|id|retry)?:/m.test(piece)) put(WHOLE, piece)
  else for (const [at, line] of lines.entries()) if (line.startsWith('data:')) put(at, line.slice('data:'.length))
  return { lines, values, raw, isChanged: false }
}

/** The place of a value that is the whole piece. */
const WHOLE = -1

const written = ({ lines, values }: TapedPiece): string => {
  const whole = values.get(WHOLE)
  if (whole !== undefined) return JSON.stringify(whole) + (lines.at(-1) === '' ? '\n' : '')
  return lines
    .map((line, at) => {
      const value = values.get(at)
      return value === undefined ? line : `data: ${JSON.stringify(value)}${line.endsWith('\r') ? '\r' : ''}`
    })
    .join('\n')
}

function* leavesOf(value: Json, frame: number, path = ''): Generator<Leaf> {
  if (!isList(value) && !isObject(value)) return
  const place = isList(value) ? [] : PLACES.map((name) => value[name]).filter((one) => one !== undefined)
  const own = place.length === 0 ? path : `${path}(${place.join(' ')})`
  // Parsed here, so nothing else has it.
  const members = value as { [name: string]: Json }
  for (const [name, inner] of Object.entries(members)) {
    const channel = `${own}.${name}`
    if (typeof inner !== 'string') yield* leavesOf(inner, frame, channel)
    else
      yield {
        channel,
        name,
        text: inner,
        frame,
        set(text) {
          members[name] = text
        },
      }
  }
}

/** Puts each mask where its text begins, and removes the rest of the text from the pieces after it. */
const mask = (
  leaves: readonly Leaf[],
  spans: ReturnType<ExchangeMasks['spans']>,
  frames: readonly TapedPiece[],
): void => {
  let from = 0
  for (const { text, frame, set } of leaves) {
    const end = from + text.length
    const own = spans.filter((span) => span.start < end && span.end > from)
    if (own.length > 0) {
      let out = ''
      let at = from
      for (const span of own) {
        if (span.start >= from) out += text.slice(at - from, span.start - from) + span.mask
        at = Math.min(end, span.end)
      }
      set(out + text.slice(at - from))
      const changed = frames[frame]
      if (changed) changed.isChanged = true
    }
    from = end
  }
}
