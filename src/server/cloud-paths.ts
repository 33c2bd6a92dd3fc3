/**
 * Paths under which clients call Claude at Bedrock and Vertex AI, such as Claude Code with CLAUDE_CODE_USE_BEDROCK. The call is the one of
 * Anthropic's path with another envelope: members in the path, and at Bedrock other events and errors.
 */

import { cloudNames } from '../core/claude-name.ts'
import { type TextOrBytes, textOf } from '../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import { isTextBody, type RequestBody } from '../core/http-exchange.ts'
import { object, parseObject, text } from '../core/json.ts'
import { percentDecoded } from '../core/percent-decoded.ts'
import type { Stage } from '../core/stage.ts'
import { BETA_HEADER, betasIn } from '../policy/routing/betas.ts'
import {
  awsCountBody,
  awsErrorBody,
  awsErrorType,
  awsProfilesBody,
  chunksOfEvents,
} from '../protocols/anthropic-messages/bedrock-reply.ts'
import { headOf, ownBody } from '../protocols/anthropic-messages/cloud-body.ts'
import { eventStream } from '../protocols/framing/event-stream.ts'
import { fromBase64, standardBase64 } from '../protocols/shared/media.ts'
import type { BegunReply } from './reply.ts'

/** `path`: the equivalent one of Anthropic's API. */
export type CloudPath = {
  readonly path: string
  readonly cloud: 'bedrock' | 'vertex'
  readonly call: 'messages' | 'count' | 'profiles' | 'unknown'
  readonly model: string
  readonly stream: boolean
}

/** Cheap for other paths. */
const PREFIX = /^\/(?:model\/|bedrock\/|vertex\/|v1\/projects\/|inference-profiles$)/
const INVOKE = /^\/model\/([^/]+)\/(invoke|invoke-with-response-stream|count-tokens)$/
const PREDICT =
  /^(?:\/v1)?\/projects\/[^/]+\/locations\/[^/]+\/publishers\/anthropic\/models\/([^/:]+):(rawPredict|streamRawPredict)$/
const COUNT = 'count-tokens'

/** Null: it is another path. */
export const cloudPathOf = (sent: string): CloudPath | null => {
  if (!PREFIX.test(sent)) return null
  const path = sent.replace(/^\/(?:bedrock|vertex)(?=\/)/, '')
  const predicted = PREDICT.exec(path)
  if (predicted) {
    const [, model = '', verb] = predicted
    return calledPath('vertex', model, { isCount: model === COUNT, stream: verb === 'streamRawPredict' })
  }
  const bedrock = { cloud: 'bedrock', model: '', stream: false } as const
  if (path === '/inference-profiles') return { ...bedrock, path: '/v1/models', call: 'profiles' }
  const invoked = INVOKE.exec(path)
  if (!invoked) return path.startsWith('/model/') ? { ...bedrock, path, call: 'unknown' } : null
  const [, model = '', verb] = invoked
  return calledPath('bedrock', model, { isCount: verb === COUNT, stream: verb === 'invoke-with-response-stream' })
}

/** `model`: as it stands in the path. */
const calledPath = (
  cloud: CloudPath['cloud'],
  model: string,
  { isCount, stream }: { readonly isCount: boolean; readonly stream: boolean },
): CloudPath => ({
  path: isCount ? '/v1/messages/count_tokens' : '/v1/messages',
  cloud,
  call: isCount ? 'count' : 'messages',
  model: percentDecoded(model) ?? model,
  stream,
})

type CloudRequest = { readonly body: RequestBody; readonly headers: HeaderLookup }

/** The request as Anthropic's path takes it. `known`: the first of these names of a model that the gateway knows. */
export const ownRequest = (
  { cloud, call, model, stream }: CloudPath,
  { body, headers }: CloudRequest,
  known: (names: readonly string[]) => string,
): Outcome<CloudRequest> => {
  if (call === 'profiles' || !isTextBody(body)) return good({ body, headers })
  const own = call === 'count' && cloud === 'bedrock' ? countedText(body.text) : good(body.text)
  if (!own.ok) return own
  const named = call === 'count' && cloud === 'vertex' ? (text(parseObject(own.value)?.model) ?? '') : model
  const { text: written, betas, version } = ownBody(own.value, headOf(known(cloudNames(named)), stream))
  const moved = new Map<string, string>([
    ...(betas.length > 0 ? [[BETA_HEADER, united(headers(BETA_HEADER), betas)] as const] : []),
    ...(version === null ? [] : [['anthropic-version', version] as const]),
  ])
  return good({
    body: { text: written },
    headers: moved.size === 0 ? headers : (name) => moved.get(name) ?? headers(name),
  })
}

/** The request whose tokens CountTokens counts. */
const countedText = (body: string): Outcome<string> => {
  const encoded = text(object(object(parseObject(body)?.input)?.invokeModel)?.body)
  const inner = encoded === undefined ? undefined : fromBase64(standardBase64(encoded))
  return inner === undefined ? bad(NOT_INVOKED) : good(inner)
}

const NOT_INVOKED = fail('invalid_request', 'Send the request to count as `input.invokeModel.body`, in base64.')

const united = (header: string | undefined, betas: readonly string[]): string =>
  [...new Set([...betasIn(header), ...betas])].join(',')

/** The failure of a request without a valid key. */
export const cloudFailure = (failure: Failure, headers: HeaderLookup): Failure =>
  failure.kind === 'unauthenticated' && headers('authorization')?.startsWith('AWS4-') ? SIGNED : failure

const SIGNED = fail(
  'unauthenticated',
  'The request is signed with AWS credentials, which this gateway cannot check. Use a gateway key as AWS_BEARER_TOKEN_BEDROCK.',
)

/** The writer of the response. Vertex AI answers as Anthropic does. */
export const cloudReply = ({ cloud, call }: CloudPath, writer: BegunReply): BegunReply =>
  cloud === 'vertex' ? writer : new BedrockReply(writer, WHOLE[call])

const same = (body: string): string => body
const WHOLE: { readonly [call in CloudPath['call']]: (body: string) => string } = {
  messages: same,
  unknown: same,
  count: awsCountBody,
  profiles: awsProfilesBody,
}

/** Writes messages streams in chunks, and other bodies when they are complete. */
class BedrockReply implements BegunReply {
  readonly #writer: BegunReply
  #convert: (body: string) => string
  #chunks: Stage<string, Uint8Array> | null = null
  #body = ''

  constructor(writer: BegunReply, convert: (body: string) => string) {
    this.#writer = writer
    this.#convert = convert
  }

  get begun(): boolean {
    return this.#writer.begun
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    if (status >= 400) {
      this.#convert = awsErrorBody
      return this.#writer.writeHead(status, { ...headers, 'x-amzn-errortype': awsErrorType(status) })
    }
    if (!headers['content-type']?.startsWith('text/event-stream')) return this.#writer.writeHead(status, headers)
    this.#chunks = chunksOfEvents()
    const types = { 'content-type': eventStream.mediaType, 'x-amzn-bedrock-content-type': 'application/json' }
    this.#writer.writeHead(status, { ...headers, ...types })
  }

  write(piece: TextOrBytes): boolean {
    if (this.#chunks) return this.#send(this.#chunks.push(textOf(piece)))
    this.#body += textOf(piece)
    return true
  }

  end(last = ''): void {
    if (!this.#chunks) return this.#writer.end(this.#body + last === '' ? '' : this.#convert(this.#body + last))
    this.#send([...this.#chunks.push(last), ...this.#chunks.end()])
    this.#writer.end()
  }

  #send(chunks: readonly Uint8Array[]): boolean {
    let ready = true
    for (const chunk of chunks) ready = this.#writer.write(chunk) && ready
    return ready
  }

  left(): void {
    this.#writer.left()
  }

  abort(): void {
    this.#writer.abort()
  }

  onDrain(run: () => void): void {
    this.#writer.onDrain(run)
  }

  onDisconnect(run: () => void): void {
    this.#writer.onDisconnect(run)
  }
}
