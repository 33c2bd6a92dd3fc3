/**
 * Batches in answers of providers, and what their results state. A batch that was cancelled or has expired may have results, and
 * its provider bills them (BerriAI/litellm#37156, #37205).
 */
import { isList, isObject, type Json, type JsonObject, text } from '../../core/json.ts'

/** Where the results of a batch are: answers, one a line of a file at this path of the provider, or in the batch itself. */
export type BatchResults = { readonly path: string; readonly query: string } | readonly JsonObject[]

export type SeenBatch = {
  readonly id: string
  /** The path at the provider that reads it. */
  readonly path: string
  /** Null: it has not ended. */
  readonly ended: {
    /** Empty: none of its requests has been answered. Null: they cannot be read any more. */
    readonly results: readonly BatchResults[] | null
    /** The tokens of all answers, as OpenAI states them since September 2025; null: not stated. */
    readonly usage: JsonObject | null
    readonly model: string | null
  } | null
}

/** The batches that an answer to a call of this path states: one, or a list. */
export const batchesIn = (answer: JsonObject, path: string): readonly SeenBatch[] => {
  const root = ROOT.exec(path)?.[1]
  if (root === undefined) return []
  const { data, operations } = answer
  const list = isList(data) ? data : isList(operations) ? operations : [answer]
  return list.flatMap((one) => (isObject(one) ? (batchOf(one, root) ?? []) : []))
}

/** Whether a call of this path may have a batch in its answer. */
export const mayHaveBatches = (path: string): boolean => ROOT.test(path)

/** What is before the first segment of the paths of batches: the version of the API. */
const ROOT =
  /^(.*?)\/(?:batches|batch\/jobs|messages\/batches|models\/[^/]+:(?:batchGenerateContent|asyncBatchEmbedContent))(?:[/:].*)?$/

const batchOf = (object: JsonObject, root: string): SeenBatch | null => {
  if (object.type === 'message_batch') return anthropicBatch(object, root)
  if (object.object === 'batch') return openaiBatch(object, root)
  return isObject(object.metadata) ? googleBatch(object, object.metadata, root) : null
}

// ── OpenAI, and those with its paths; Mistral ────────────────────────────────────────────────────────────────────────

const OPENAI_ENDS: ReadonlySet<string> = new Set(['completed', 'failed', 'expired', 'cancelled'])
const MISTRAL_ENDS: ReadonlySet<string> = new Set(['SUCCESS', 'FAILED', 'TIMEOUT_EXCEEDED', 'CANCELLED'])

/** https://platform.openai.com/docs/api-reference/batch/object; https://docs.mistral.ai/api/endpoint/batch. */
const openaiBatch = ({ id, status, output_file_id, output_file, usage, model }: JsonObject, root: string) => {
  if (typeof id !== 'string' || typeof status !== 'string') return null
  const isMistral = status === status.toUpperCase()
  const file = text(output_file_id) ?? text(output_file)
  return {
    id,
    path: `${root}/${isMistral ? 'batch/jobs' : 'batches'}/${id}`,
    ended: (isMistral ? MISTRAL_ENDS : OPENAI_ENDS).has(status)
      ? {
          results: file === undefined ? [] : [{ path: `${root}/files/${file}/content`, query: '' }],
          usage: isObject(usage) ? usage : null,
          model: text(model) ?? null,
        }
      : null,
  }
}

// ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** https://docs.claude.com/en/api/retrieving-message-batches: results stay for 29 days. */
const anthropicBatch = ({ id, processing_status, results_url }: JsonObject, root: string) => {
  if (typeof id !== 'string') return null
  const path = `${root}/messages/batches/${id}`
  const results = typeof results_url === 'string' ? [{ path: `${path}/results`, query: '' }] : []
  return { id, path, ended: processing_status === 'ended' ? { results, usage: null, model: null } : null }
}

// ── Google ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const GOOGLE_ENDS: ReadonlySet<string> = new Set(['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED'])

/** An operation with the batch as its metadata: https://ai.google.dev/api/batch-mode. The counts of `batchStats` are of requests. */
const googleBatch = ({ name, response }: JsonObject, metadata: JsonObject, root: string) => {
  const id = /^batches\/([^/]+)$/.exec(text(name) ?? '')?.[1]
  const state = text(metadata.state)?.replace(/^(?:BATCH|JOB)_STATE_/, '')
  if (id === undefined || state === undefined) return null
  const outputs = [response, metadata.output].filter(isObject)
  const file = outputs.map(({ responsesFile }) => text(responsesFile)).find((one) => one !== undefined)
  const inlined = outputs.map(inlinedIn).find((list) => list.length > 0)
  const results =
    file !== undefined ? [{ path: `${root}/${file}:download`, query: 'alt=media' }] : inlined ? [inlined] : []
  const model = text(metadata.model)?.replace(/^models\//, '') ?? null
  return { id, path: `${root}/batches/${id}`, ended: GOOGLE_ENDS.has(state) ? { results, usage: null, model } : null }
}

const inlinedIn = ({ inlinedResponses, inlinedEmbedContentResponses }: JsonObject): readonly JsonObject[] => {
  const within = [inlinedResponses, inlinedEmbedContentResponses].find(isObject)
  const list = within && Object.values(within).find(isList)
  return list ? list.filter(isObject) : []
}

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The answer in one result; null: its request was not answered, and is not billed. */
export const answerInResult = (result: Json): JsonObject | null => {
  if (!isObject(result)) return null
  const { response, result: inner } = result
  // Anthropic: `succeeded`, `errored`, `canceled`, `expired`.
  if (isObject(inner)) return inner.type === 'succeeded' && isObject(inner.message) ? inner.message : null
  if (!isObject(response)) return null
  const { status_code: status, body } = response
  if (status === undefined) return response
  return typeof status === 'number' && status < 400 && isObject(body) ? body : null
}
