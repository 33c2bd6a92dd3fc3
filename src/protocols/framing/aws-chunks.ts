/**
 * The stream of Bedrock's InvokeModelWithResponseStream: messages of Amazon's event stream, each `chunk` of which has one event of the
 * model in base64 (`{"bytes":"…","p":"abc"}`; `p` is padding). The frames are those of the equivalent server-sent events.
 * docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html (2026-11-28).
 */
import { isObject, readJson, text } from '../../core/json.ts'
import { withoutMember } from '../../core/json-edit.ts'
import type { Frame, Framing } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { ERROR, EXCEPTION, eventFrames, eventStream } from './event-stream.ts'
import { decodeUtf8 } from './utf8.ts'

/** Bedrock adds it to the last event; the counts are in the events before it. */
const METRICS = 'amazon-bedrock-invocationMetrics'

/** The first member of each event. */
const TYPE = /^\s*\{\s*"type"\s*:\s*"([a-z_]+)"/

/** An event that is not JSON, in place of a chunk without bytes. */
const NO_EVENT: Frame = { data: '(a chunk without an event)' }

const frames = (most: number): Stage<Uint8Array, Frame> => {
  const messages = eventFrames(most)
  return { push: (slice) => messages.push(slice).map(inner), end: () => messages.end().map(inner) }
}

export const awsChunks: Framing = { mediaType: eventStream.mediaType, frames }

const inner = (frame: Frame): Frame => {
  const { event, data } = frame
  if (event === 'chunk') return eventIn(data)
  const type = event?.startsWith(EXCEPTION) ? event.slice(EXCEPTION.length) : undefined
  const code = event?.startsWith(ERROR) ? event.slice(ERROR.length) : undefined
  const kind = type ?? code
  if (kind === undefined) return frame
  const payload = readJson(data)
  const message = (isObject(payload) ? (text(payload.message) ?? text(payload.Message)) : undefined) ?? data
  return { event: 'error', data: JSON.stringify({ type: 'error', error: { type: kind, message } }) }
}

const eventIn = (payload: string): Frame => {
  const chunk = readJson(payload)
  const bytes = isObject(chunk) ? text(chunk.bytes) : undefined
  const data = bytes === undefined ? undefined : decoded(bytes)
  if (data === undefined) return NO_EVENT
  const event = TYPE.exec(data)?.[1]
  return { ...(event !== undefined && { event }), data: data.includes(METRICS) ? withoutMetrics(data) : data }
}

const withoutMetrics = (data: string): string => {
  const event = readJson(data)
  return isObject(event) ? JSON.stringify(withoutMember(event, METRICS)) : data
}

/** Undefined: it is not base64. */
const decoded = (base64: string): string | undefined => {
  try {
    const binary = atob(base64)
    const bytes = new Uint8Array(binary.length)
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at)
    return decodeUtf8(bytes)
  } catch {
    // The frame then is an event that cannot be read.
    return undefined
  }
}
