/** What clients of Bedrock expect of an answer: events in chunks, and errors of AWS. */
import { toBase64 } from '../../core/base64.ts'
import { isObject, list, object, readJson, text } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'
import { eventHeaders, writeEventMessage } from '../framing/event-stream.ts'
import { sseFrames } from '../framing/sse.ts'

const CHUNK = eventHeaders({ ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' })
const EXCEPTION = eventHeaders({
  ':exception-type': 'modelStreamErrorException',
  ':content-type': 'application/json',
  ':message-type': 'exception',
})

/** Converts the server-sent events of a messages stream. Comments are dropped, an error is an exception. */
export const chunksOfEvents = (): Stage<string, Uint8Array> => {
  const frames = sseFrames(Number.POSITIVE_INFINITY)
  const written = ({ event, data }: { readonly event?: string; readonly data: string }): Uint8Array[] => {
    if (data === '') return []
    return [
      event === 'error'
        ? writeEventMessage(EXCEPTION, JSON.stringify({ message: messageIn(data) }))
        : writeEventMessage(CHUNK, `{"bytes":"${toBase64(data)}"}`),
    ]
  }
  return {
    push: (slice) => frames.push(slice).flatMap(written),
    end: () => frames.end().flatMap(written),
  }
}

/** The message of an error body in any of the gateway's shapes. */
const messageIn = (body: string): string => {
  const error = readJson(body)
  return (isObject(error) ? (text(object(error.error)?.message) ?? text(error.message)) : undefined) ?? body
}

/** docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html, "Errors" (2026-11-28). */
const TYPES: { readonly [status: number]: string } = {
  400: 'ValidationException',
  401: 'UnrecognizedClientException',
  402: 'ValidationException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  413: 'ValidationException',
  429: 'ThrottlingException',
  503: 'ServiceUnavailableException',
  504: 'ModelTimeoutException',
  529: 'ServiceUnavailableException',
}

/** The type of an error, for `x-amzn-errortype`. */
export const awsErrorType = (status: number): string =>
  TYPES[status] ?? (status < 500 ? 'ValidationException' : 'InternalServerException')

export const awsErrorBody = (body: string): string => JSON.stringify({ message: messageIn(body) })

/** The answer of CountTokens. */
export const awsCountBody = (body: string): string => {
  const count = readJson(body)
  return JSON.stringify({ inputTokens: isObject(count) ? count.input_tokens : undefined })
}

/** The Claude models of a list, as ListInferenceProfiles has them. */
export const awsProfilesBody = (body: string): string => {
  const models = readJson(body)
  const names = (isObject(models) ? list(models.data) : []).flatMap((model) => text(object(model)?.id) ?? [])
  return JSON.stringify({
    inferenceProfileSummaries: names
      .filter((name) => name.includes('claude'))
      .map((name) => ({
        inferenceProfileId: name,
        inferenceProfileName: name,
        inferenceProfileArn: `arn:aws:bedrock:::inference-profile/${name}`,
        models: [],
        status: 'ACTIVE',
        type: 'SYSTEM_DEFINED',
      })),
  })
}
