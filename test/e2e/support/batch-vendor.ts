/**
 * A vendor with the batches of four APIs, in the shapes that their references state. Every answer of a batch used 1,000 tokens of input and
 * 100 of output.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Where a batch ends: `status` as the vendor names it; `answers`: results with an answer. */
type VendorBatch = {
  readonly id: string
  readonly kind: 'openai' | 'mistral' | 'anthropic' | 'google'
  status: string
  answers: number
  /** OpenAI's object states the sum. */
  usage: boolean
  /** Its results were deleted. */
  isGone: boolean
}

export type BatchVendor = {
  readonly url: string
  /** By ID. */
  readonly batches: Map<string, VendorBatch>
  readonly ends: (id: string, status: string, answers: number) => void
  readonly close: () => void
}

const MODEL = {
  openai: 'gpt-5-mini',
  mistral: 'mistral-small-2603',
  anthropic: 'claude-haiku-4-5',
  google: 'gemini-2.5-flash',
}

/** https://platform.openai.com/docs/guides/batch, https://docs.mistral.ai/capabilities/batch. */
const openaiLine = (kind: 'openai' | 'mistral', n: number) => ({
  id: `batch_req_${n}`,
  custom_id: `request-${n}`,
  response: {
    status_code: 200,
    request_id: `r${n}`,
    body: {
      id: `chatcmpl-${n}`,
      object: 'chat.completion',
      model: MODEL[kind],
      choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 },
    },
  },
  error: null,
})
const refusedLine = {
  custom_id: 'bad',
  response: { status_code: 400, body: { error: { message: 'no' } } },
  error: null,
}

/** https://docs.claude.com/en/docs/build-with-claude/batch-processing. */
const anthropicLine = (n: number) => ({
  custom_id: `request-${n}`,
  result: {
    type: 'succeeded',
    message: {
      id: `msg_${n}`,
      type: 'message',
      role: 'assistant',
      model: MODEL.anthropic,
      content: [{ type: 'text', text: 'hello' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1_000, output_tokens: 100, service_tier: 'batch' },
    },
  },
})

/** https://ai.google.dev/gemini-api/docs/batch-api. */
const googleLine = (n: number) => ({
  key: `request-${n}`,
  response: {
    candidates: [{ content: { parts: [{ text: 'hello' }], role: 'model' }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 100, totalTokenCount: 1_100 },
    modelVersion: MODEL.google,
  },
})

const listOf = <T>(length: number, of: (n: number) => T): readonly T[] => Array.from({ length }, (_, n) => of(n))
const linesOf = (lines: readonly unknown[]): string => lines.map((line) => `${JSON.stringify(line)}\n`).join('')

const objectOf = ({ id, kind, status, answers, usage }: VendorBatch, origin: string): unknown => {
  switch (kind) {
    case 'openai': {
      const tokens = { input_tokens: answers * 1_000, output_tokens: answers * 100, total_tokens: answers * 1_100 }
      const file = answers > 0 ? `file-out-${id}` : null
      return {
        id,
        object: 'batch',
        endpoint: '/v1/chat/completions',
        model: MODEL.openai,
        input_file_id: 'file-in',
        completion_window: '24h',
        status,
        output_file_id: file,
        error_file_id: null,
        request_counts: { total: 10, completed: answers, failed: 0 },
        ...(usage && { usage: tokens }),
      }
    }
    case 'mistral':
      return { id, object: 'batch', status, model: MODEL.mistral, output_file: answers > 0 ? `out-${id}` : null }
    case 'anthropic':
      return {
        id,
        type: 'message_batch',
        processing_status: status,
        request_counts: { processing: 0, succeeded: answers, errored: 1, canceled: 0, expired: 0 },
        results_url: status === 'ended' ? `${origin}/v1/messages/batches/${id}/results` : null,
      }
    default: {
      const hasEnded = !/PENDING|RUNNING/.test(status)
      const inlined = id.includes('inline')
      const output = inlined
        ? { inlinedResponses: { inlinedResponses: listOf(answers, googleLine) } }
        : { responsesFile: `files/batch-${id}` }
      return {
        name: `batches/${id}`,
        metadata: {
          '@type': 'type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch',
          model: `models/${MODEL.google}`,
          batchStats: { requestCount: '10' },
          state: `BATCH_STATE_${status}`,
          ...(hasEnded && answers > 0 && { output }),
        },
        ...(hasEnded && { done: true }),
        ...(hasEnded && answers > 0 && { response: output }),
      }
    }
  }
}

const resultsOf = ({ kind, answers }: VendorBatch): string => {
  if (kind === 'anthropic')
    return linesOf([...listOf(answers, anthropicLine), { custom_id: 'e', result: { type: 'expired' } }])
  if (kind === 'google') return linesOf([...listOf(answers, googleLine), { key: 'e', error: { code: 3 } }])
  return linesOf([...listOf(answers, (n) => openaiLine(kind, n)), refusedLine])
}

const START = { openai: 'validating', mistral: 'QUEUED', anthropic: 'in_progress', google: 'PENDING' } as const

const kindAt = (path: string): VendorBatch['kind'] =>
  path.includes('/messages/')
    ? 'anthropic'
    : path.includes('/batch/jobs')
      ? 'mistral'
      : path.startsWith('/v1beta')
        ? 'google'
        : 'openai'

export const startBatchVendor = async (): Promise<BatchVendor> => {
  const batches = new Map<string, VendorBatch>()
  let number = 0
  const server = createServer(async (req, res) => {
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part)
    const { pathname: path } = new URL(req.url ?? '', 'http://x')
    const send = (value: unknown, status = 200) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    const origin = `http://${req.headers.host}`
    const file =
      /\/(?:files\/(?:file-out-|out-|batch-)|messages\/batches\/)([^/:]+)(?:\/content|\/results|:download)$/.exec(path)
    if (file) {
      const batch = batches.get(file[1] ?? '')
      if (!batch || batch.isGone) return send({ error: { message: 'no such file' } }, 404)
      return res.writeHead(200, { 'content-type': 'application/octet-stream' }).end(resultsOf(batch))
    }
    if (req.method === 'POST' && /\/(?:batches|jobs)$|:batchGenerateContent$/.test(path)) {
      const kind = kindAt(path)
      const id = `${kind === 'google' && Buffer.concat(parts).includes('inline') ? 'inline' : 'batch_'}${++number}abc`
      batches.set(id, { id, kind, status: START[kind], answers: 0, usage: true, isGone: false })
      return send(objectOf(batches.get(id) as VendorBatch, origin))
    }
    const id = /\/(?:batches|jobs)\/([^/:]+)/.exec(path)?.[1]
    const batch = id === undefined ? undefined : batches.get(id)
    if (batch && req.method === 'DELETE') {
      batches.delete(batch.id)
      return send({ id, type: 'message_batch_deleted' })
    }
    if (batch) return send(objectOf(batch, origin))
    if (id === undefined)
      return send({ object: 'list', data: [...batches.values()].map((one) => objectOf(one, origin)) })
    return send({ error: { message: 'not found' } }, 404)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    batches,
    ends(id, status, answers) {
      const batch = batches.get(id)
      if (batch) Object.assign(batch, { status, answers })
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
