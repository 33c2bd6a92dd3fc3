/** How the answer of a relayed endpoint is read: whole or in parts, and its token counts. */
import type { ChatEvent } from '../../core/chat.ts'
import { isObject, type Json } from '../../core/json.ts'
import type { RelayRow } from '../../core/relay.ts'
import { malformed } from '../../protocols/errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../../protocols/errors/openai-error.ts'
import { failureIn } from '../../protocols/shared/openai-finish-and-usage.ts'
import { decodeUsage } from '../../protocols/shared/usage-members.ts'
import type { AnswerFormat } from '../upstream/body-reader.ts'

const FINISH: ChatEvent = { type: 'finish', finish: { kind: 'stop', raw: null } }

/** The format of an endpoint's answers. Its events state the tokens and the end; the text is forwarded beside them. */
export const relayFormat = ({ answer }: RelayRow): AnswerFormat => ({
  decodeFailure: decodeOpenaiFailure,
  decodeAnswer: (body) => {
    const failure = failureIn(body)
    if (failure) return [{ type: 'failure', failure }]
    if (answer === 'json' && !isObject(body)) return [{ type: 'failure', failure: NO_OBJECT }]
    return [...usageIn(body), FINISH]
  },
  decodeStream: () => ({ push: () => [], end: () => [{ type: 'failure', failure: UNASKED_STREAM }] }),
})

const NO_OBJECT = malformed('it is not a JSON object')
const UNASKED_STREAM = malformed('it is a stream, which the request does not ask for')

const usageIn = (body: Json): readonly ChatEvent[] => {
  const usage = isObject(body) ? decodeUsage(body.usage) : undefined
  return usage ? [{ type: 'usage', usage }] : []
}
