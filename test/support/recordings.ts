/**
 * Recorded traffic of real upstreams and clients. The recordings are outside the project; without them the tests that
 * need them are skipped visibly. CI has them, so there a missing one fails.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { fromChunk } from './event-stream.ts'

const wire = new URL('../../../shared/wire/', import.meta.url)
/** Whether the recordings and the published schemas are present. */
export const recordingsPresent = existsSync(new URL('recordings/index.json', wire))

/** For the `skip` of a test: false where the recordings are present, and in CI, where missing ones must fail. */
export const skipWithoutRecordings =
  recordingsPresent || process.env.HEADGATE_CI === '1' ? false : 'the recordings are not present'

/** Call it first in a test file that needs the recordings. */
export const requireRecordings = (): void => {
  test('the recordings are present', { skip: skipWithoutRecordings }, () => assert.ok(recordingsPresent))
}

/** Reads a file of that folder. Null: it is not present. */
export const readWire = (path: string): JsonObject | null => {
  if (!recordingsPresent) return null
  const value: unknown = JSON.parse(readFileSync(new URL(path, wire), 'utf8'))
  assert.ok(isObject(value), `${path} is not an object`)
  return value
}

export type RecordedApi =
  | 'chat'
  | 'responses'
  | 'messages'
  | 'gemini'
  | 'mistral'
  | 'ollama'
  | 'cohere'
  | 'bedrock-converse'
  | 'completions'
  | 'embeddings'

/** One recorded exchange; see the recordings' README. */
export type Recording = {
  readonly id: string
  readonly api: string
  readonly provider: string
  readonly status: number | null
  readonly framing: string | null
  readonly trimmed: boolean
  readonly request: Json
  readonly response_headers: { readonly [name: string]: string } | null
  readonly response: Json
  readonly chunks: readonly string[] | null
}

/** The file names of all recordings. */
export const recordingFiles = (): readonly string[] =>
  recordingsPresent
    ? readdirSync(new URL('recordings/', wire))
        .filter((name) => name.endsWith('.json') && name !== 'index.json')
        .sort()
    : []

const recorded = (wanted: (name: string) => boolean): readonly Recording[] =>
  recordingFiles()
    .filter(wanted)
    // The recordings' README documents their shape.
    .map((name) => readWire(`recordings/${name}`) as unknown as Recording)

/** Every recording of an API, ordered by name. */
export const recordingsOf = (api: RecordedApi): readonly Recording[] =>
  recorded((name) => name.includes(`-${api}-`)).filter((recording) => recording.api === api)

/** The messages of a stream, as their original bytes. */
export const messagesOf = ({ chunks, framing }: Pick<Recording, 'chunks' | 'framing'>): Uint8Array[] => {
  if (framing === 'aws-eventstream') return (chunks ?? []).flatMap(fromChunk)
  const end = framing === 'ndjson' ? '\n' : '\n\n'
  return (chunks ?? []).map((chunk) => new TextEncoder().encode(chunk + end))
}

/** Every recording of every API. */
export const allRecordings = (): readonly Recording[] => recorded(() => true)

/** A recorded client request, and its source. */
export type ClientRequest = {
  readonly name: string
  readonly path: string
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
}

/** Every recorded client request with a body. */
export const clientRequests = (): readonly ClientRequest[] => {
  if (!recordingsPresent) return []
  const files = readdirSync(new URL('client-requests/', wire)).filter((name) => name.endsWith('.json'))
  return files.sort().flatMap((file) => {
    const clientFile = readWire(`client-requests/${file}`)
    return list(clientFile?.scenarios).flatMap((scenario) =>
      list(object(scenario)?.requests).flatMap((entry): ClientRequest[] => {
        const request = object(entry)
        const body = object(request?.body)
        if (request?.method !== 'POST' || !body) return []
        const name = `${text(clientFile?.client) ?? file}: ${text(object(scenario)?.name) ?? ''} ${String(request.seq)}`
        return [
          { name, path: (text(request.url) ?? '').split('?')[0] ?? '', headers: headersOf(request.headers), body },
        ]
      }),
    )
  })
}

/** Of a list of pairs, or of an object. */
const headersOf = (recorded: unknown): Readonly<Record<string, string>> => {
  const pairs = list(recorded).length > 0 ? list(recorded).map(list) : Object.entries(object(recorded) ?? {})
  return Object.fromEntries(pairs.map(([name, value]) => [String(name).toLowerCase(), String(value)]))
}
