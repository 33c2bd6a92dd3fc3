/** What the attempts of a call need, from its request. */

import type { Service } from '../../core/accounts.ts'
import type { ChatRequest, Part, UnitCount } from '../../core/chat.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { type JsonObject, text } from '../../core/json.ts'
import type { Plan } from '../../core/target.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import { tokensOfBytes } from '../../policy/accounts/estimate.ts'
import { estimateTokens } from '../../policy/routing/estimate-tokens.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'

/** `count`: as the request shows it; null: only the answer can. */
export type DemandedUnits = UnitCount & { readonly most: number }

/** What a call needs, before it is corrected for each model. */
export type CallDemand = {
  /** The model as the client named it, if it decides about the target; null: the default route does. */
  readonly asked: string | null
  /** The name of the route, if the plan is of a route. */
  readonly route: string | null
  /** Null: nothing was planned. */
  readonly plan: Plan | null
  /** Estimated input tokens. */
  readonly input: number
  /** `max_tokens` of the request. Undefined: the client gave none. */
  readonly requested?: number | undefined
  /** Number of choices. */
  readonly choices?: number | undefined
  /** The answer is delivered whole: nothing of it can be seen before its end. */
  readonly isWhole?: boolean
  /** The service that the request asks for. */
  readonly service?: Service | undefined
  /**
   * `text`: an answer of estimated length. `requested`: `requested` tokens, because the answer does not show how many it took.
   * `none`: an answer without output tokens. `free`: the call costs nothing.
   */
  readonly output: 'text' | 'requested' | 'none' | 'free'
  /** Output that is not counted is audio. */
  readonly isAudio?: true
  /** What is billed by its unit: its count and kind where the answer states none, and the most that is reserved. */
  readonly units?: DemandedUnits | undefined
  /** The end user that the request names. */
  readonly endUser: string | null
  /** Other names that it gives the end user; absent: none. */
  readonly otherUsers?: readonly string[] | undefined
}

/** The demand of a call before its request is known. */
export const NO_DEMAND: CallDemand = { asked: null, route: null, plan: null, input: 0, output: 'free', endUser: null }

/** A request for text. `body`: as received; null: the request also contains stored turns. */
type TextCall = {
  readonly request: ChatRequest
  readonly members: JsonObject
  readonly body: EncodedText | null
  readonly plan: Plan
}

export const textDemand = ({ request, members, body, plan }: TextCall): CallDemand => ({
  ...plannedFor(plan, request.model),
  input: body && request.messages.every(isText) ? tokensOfBody(body) : estimateTokens(request),
  requested: request.settings.maxOutputTokens?.value,
  choices: choicesOf(request),
  isWhole: !request.stream,
  service: serviceOf(members),
  output: 'text',
  ...endUsersOf(members),
})

/** A request for embeddings or a token count. */
type JsonDemand = Pick<TextCall, 'members' | 'plan'> & {
  readonly body: EncodedText
  readonly model: string
  readonly output: 'none' | 'free'
}

export const jsonDemand = ({ body, members, model, plan, output }: JsonDemand): CallDemand => ({
  ...plannedFor(plan, model),
  input: output === 'free' ? 0 : tokensOfBody(body),
  output,
  ...endUsersOf(members),
})

/** A relayed request, whose tokens are estimated. */
type RelayDemand = Pick<TextCall, 'members' | 'plan'> & {
  readonly model: string
  readonly input: number
  readonly output: number
  readonly units?: DemandedUnits | undefined
}

export const relayDemand = ({ members, model, plan, input, output, units }: RelayDemand): CallDemand => ({
  ...plannedFor(plan, model),
  input,
  units,
  requested: output,
  output: 'requested',
  ...endUsersOf(members),
})

/** Estimated tokens of a body of JSON. */
export const tokensOfBody = ({ text: body, bytes }: EncodedText): number => tokensOfBytes(bytes?.length ?? body.length)

const plannedFor = (plan: Plan, model: string): Pick<CallDemand, 'asked' | 'route' | 'plan'> => ({
  asked: plan.by === 'default' ? null : model,
  route: plan.by === 'route' ? (plan.route ?? model) : null,
  plan,
})

const ATTACHMENTS: ReadonlySet<Part['type']> = new Set(['image', 'file', 'audio', 'foreign'])

const isText = ({ content }: ChatRequest['messages'][number]): boolean =>
  !content.some(({ type }) => ATTACHMENTS.has(type))

const serviceOf = ({ service_tier, speed, inference_geo }: JsonObject): Service | undefined =>
  service_tier === undefined && speed === undefined && inference_geo === undefined
    ? undefined
    : { serviceTier: text(service_tier), speed: text(speed), region: text(inference_geo) }

/** The end user of a request with these members. */
export const endUsersOf = (members: JsonObject): Pick<CallDemand, 'endUser' | 'otherUsers'> => {
  const [endUser = null, ...others] = namedUsers(members)
  return others.length === 0 ? { endUser } : { endUser, otherUsers: others }
}
