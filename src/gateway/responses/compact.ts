/** `POST /v1/responses/compact`: a conversation made shorter by whoever would answer it, to be gone on with by anybody. */

import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type Json, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import { COMPACT, compactionItem, outputText } from '../../protocols/openai-responses/compaction.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import { sendUntried } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import type { Gateway } from '../gateway.ts'
import { parseLargeRequest } from '../upstream/parse-request.ts'
import { createResponse } from './create-response.ts'

export const compact = async (gateway: Gateway, received: IncomingRequest, reply: ResponseWriter): Promise<void> => {
  const refuse = (failure: Failure) =>
    sendUntried({ protocol: openaiResponses, reply, requestId: received.id }, failure)
  const asked = await parseLargeRequest(openaiResponses, received, gateway.config().settings.limit, gateway.world.turn)
  if (!asked.ok) return refuse(asked.failure)
  const { model, input, instructions, previous_response_id, prompt_cache_key } = asked.value.body
  const items: readonly Json[] =
    typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : list(input)
  const body: JsonObject = {
    ...defined({ model, instructions, previous_response_id, prompt_cache_key }),
    input: [...items, { type: 'message', role: 'user', content: COMPACT }],
    store: false,
  }
  const answer = new Captured(reply)
  await createResponse(gateway, { ...received, body: JSON.stringify(body) }, answer)
  const response = answer.status === 200 ? object(parseJson(answer.text)) : undefined
  if (!response) return answer.passOn()
  // It would stand for all of the conversation from now on.
  if (response.status === 'incomplete')
    return refuse(fail('truncated', 'The model did not bring its summary of the conversation to an end.'))
  const summary = outputText(response)
  if (summary === '') return refuse(fail('empty', 'The model gave no summary of the conversation.'))
  const id = (prefix: string) => `${prefix}_${randomLetters(gateway.world, 24)}`
  const kept = items
    .filter(isObject)
    .filter(isUsers)
    .map((item) => named(item, id('msg')))
  reply.head(200, answer.headers)
  reply.end(
    JSON.stringify({
      id: id('resp'),
      object: 'response.compaction',
      created_at: Math.floor(gateway.world.date() / 1000),
      output: [...kept, compactionItem(id('cmp'), summary)],
      usage: response.usage ?? null,
    }),
  )
}

const defined = (members: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null))

/** What the user said stays as it was said; the summary stands for everything else. */
const isUsers = (item: JsonObject): boolean =>
  item.role === 'user' && (item.type === undefined || item.type === 'message')

const named = (item: JsonObject, id: string): JsonObject => ({
  ...item,
  type: 'message',
  id: text(item.id) ?? id,
  status: 'completed',
  ...(typeof item.content === 'string' && { content: [{ type: 'input_text', text: item.content }] }),
})

/** An answer that is read here, and passed on only if it is an error. */
class Captured implements ResponseWriter {
  status = 0
  headers: Readonly<Record<string, string>> = {}
  text = ''
  readonly #reply: ResponseWriter
  #cut = false

  constructor(reply: ResponseWriter) {
    this.#reply = reply
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.status = status
    this.headers = headers
  }

  write(text: string): boolean {
    this.text += text
    return true
  }

  end(text = ''): void {
    this.text += text
  }

  cut(): void {
    this.#cut = true
  }

  onDrain(): void {}

  onGone(run: () => void): void {
    this.#reply.onGone(run)
  }

  passOn(): void {
    if (this.#cut || this.status === 0) return this.#reply.cut()
    this.#reply.head(this.status, this.headers)
    this.#reply.end(this.text)
  }
}
