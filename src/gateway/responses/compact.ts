/** `POST /v1/responses/compact`: replaces a conversation by a summary that any target can continue. */

import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type Json, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import { protocols } from '../../protocols/index.ts'
import { COMPACT, compactionItem, outputText } from '../../protocols/openai-responses/compaction.ts'
import { sendUntried } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import type { ResponsesDeps } from './background-response.ts'
import { createResponse } from './create-response.ts'

const { 'openai-responses': openaiResponses } = protocols

/** Serves a request for a compaction: the model summarises the conversation in a response that is not stored. */
export const compact = async (
  gateway: ResponsesDeps,
  received: IncomingRequest,
  responseWriter: ResponseWriter,
): Promise<void> => {
  const refuse = (failure: Failure) =>
    sendUntried({ protocol: openaiResponses, responseWriter, requestId: received.id }, failure)
  const { limit } = gateway.config().settings
  const parsed = await parseInTurns(openaiResponses, received, limit, gateway.world.turn)
  if (!parsed.ok) return refuse(parsed.failure)
  const { model, input, instructions, previous_response_id, prompt_cache_key, provider } = parsed.value.body
  const { user, safety_identifier, metadata } = parsed.value.body
  const items: readonly Json[] =
    typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : list(input)
  const body: JsonObject = {
    ...defined({
      model,
      instructions,
      previous_response_id,
      prompt_cache_key,
      provider,
      user,
      safety_identifier,
      metadata,
    }),
    input: [...items, { type: 'message', role: 'user', content: COMPACT }],
    store: false,
  }
  const answer = new CapturedResponse(responseWriter)
  await createResponse(gateway, { ...received, body: { text: JSON.stringify(body) } }, answer)
  const response = answer.status === 200 ? object(parseJson(answer.text)) : undefined
  if (!response) return answer.forward()
  // A partial summary would replace the whole conversation.
  if (response.status === 'incomplete')
    return refuse(fail('truncated', 'The model did not finish its summary of the conversation.'))
  const summary = outputText(response)
  if (summary === '') return refuse(fail('empty', 'The model returned no summary of the conversation.'))
  const id = (prefix: string) => `${prefix}_${randomLetters(gateway.world, 24)}`
  const userMessages = items
    .filter(isObject)
    .filter(isUserMessage)
    .map((item) => withId(item, id('msg')))
  responseWriter.writeHead(200, answer.headers)
  responseWriter.end(
    JSON.stringify({
      id: id('resp'),
      object: 'response.compaction',
      created_at: Math.floor(gateway.world.date() / 1000),
      output: [...userMessages, compactionItem(id('cmp'), summary)],
      usage: response.usage ?? null,
    }),
  )
}

const defined = (members: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null))

/** User messages are kept unchanged; the summary replaces everything else. */
const isUserMessage = (item: JsonObject): boolean =>
  item.role === 'user' && (item.type === undefined || item.type === 'message')

const withId = (item: JsonObject, id: string): JsonObject => ({
  ...item,
  type: 'message',
  id: text(item.id) ?? id,
  status: 'completed',
  ...(typeof item.content === 'string' && { content: [{ type: 'input_text', text: item.content }] }),
})

/** Captures an answer for this module, and forwards it to the client only if it is an error. */
class CapturedResponse implements ResponseWriter {
  status = 0
  headers: Readonly<Record<string, string>> = {}
  text = ''
  readonly #responseWriter: ResponseWriter
  #cut = false

  constructor(responseWriter: ResponseWriter) {
    this.#responseWriter = responseWriter
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.status = status
    this.headers = headers
  }

  write(piece: TextOrBytes): boolean {
    this.text += textOf(piece)
    return true
  }

  end(text = ''): void {
    this.text += text
  }

  abort(): void {
    this.#cut = true
  }

  onDrain(): void {}

  onDisconnect(run: () => void): void {
    this.#responseWriter.onDisconnect(run)
  }

  forward(): void {
    if (this.#cut || this.status === 0) return this.#responseWriter.abort()
    this.#responseWriter.writeHead(this.status, this.headers)
    this.#responseWriter.end(this.text)
  }
}
