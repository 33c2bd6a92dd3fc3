/** What a turn of a stored conversation and its answer need of the gateway. */
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import type { MemoryStore } from '../../core/stored-response.ts'
import type { World } from '../../core/world.ts'
import { storesAnswersIn } from '../../policy/routing/choose-protocol.ts'
import { usableInstances } from '../../policy/routing/models.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import { randomLetters } from '../call/ids.ts'
import type { ResponsesDeps } from './background-response.ts'
import type { ConversationTurn, TurnDeps } from './conversation.ts'
import { storedRefusal } from './conversation-history.ts'

/** `connection`: the turns of a WebSocket connection that are not stored durably. */
export const turnDeps = (
  gateway: ResponsesDeps,
  received: IncomingRequest,
  connection: MemoryStore | undefined,
): TurnDeps => {
  const { world, responses, health } = gateway
  const { owner } = received.client
  const config = gateway.config()
  const durable = config.settings.responses.keepDays > 0 ? responses : null
  return {
    stores: { durable, refusalOf: storedRefusal(gateway, received), ...(connection && { connection }) },
    owner,
    limits: config.settings.limit,
    loopTurn: world.turn,
    randomLetters: (length) => randomLetters(world, length),
    created: Math.floor(world.date() / 1000),
    upstreamMayStore: usableInstances(config).some((instance) => storesAnswersIn(openaiResponses, instance)),
    noteIssuer: (value, issuer) => {
      const instance = config.instances.find(({ id }) => id === issuer)
      if (instance) health.issuers.note({ origin: openaiResponses.name, value }, instance)
    },
  }
}

export const contextOf = (world: World, turn: ConversationTurn, received: IncomingRequest): AnswerContext => ({
  request: turn.inbound.request,
  body: turn.inbound.body,
  model: turn.inbound.request.model,
  requestId: received.id,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
  storage: turn.storage,
})
