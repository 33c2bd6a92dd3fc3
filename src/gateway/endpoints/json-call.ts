/**
 * A call whose answer is one JSON body and no text: a count of tokens, embeddings. It takes the road of every other call
 * (`first-to-open.ts`); here is only what is asked and what becomes of the answer.
 */
import type { Usage } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { fail, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Json } from '../../core/json.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Auth, ProviderKey, Quirks } from '../../core/provider.ts'
import type { Candidate, Plan, Target } from '../../core/target.ts'
import type { Cancellation } from '../call/cancellation.ts'
import type { Recorder } from '../call/recorder.ts'
import type { RoutingDeps } from '../routing/route-context.ts'
import { type NotRouted, type Routed, route } from '../routing/router.ts'
import type { AnswerFormat } from '../upstream/answer-reader.ts'
import { Attempt } from '../upstream/attempt.ts'
import { type LateBody, writeInTurns } from '../upstream/late-body.ts'
import { type Compatibility, identityOf } from '../upstream/outbound-request.ts'

/** What one candidate would be sent, and how its answer is read. */
export type Sent<T> = Compatibility & {
  readonly url: string
  readonly headers: (key: ProviderKey) => Readonly<Record<string, string>>
  readonly auth: Auth
  /** Empty where it is written late. */
  readonly body: string
  readonly late?: LateBody
  readonly read: (body: Json) => Outcome<Read<T>>
  readonly decodeFailure: UpstreamProtocol['decodeFailure']
  /** The provider's own dialect of errors. */
  readonly quirks: Pick<Quirks, 'errors'> | undefined
}

export type Read<T> = { readonly value: T; readonly usage?: Usage }

export type Call<T> = {
  /** Who asks; empty where clients are not told apart. */
  readonly client: string
  /** The id of the client's key for logs; absent or empty where there is none. */
  readonly clientKey?: string | undefined
  /** Whose share of memory the answer takes. */
  readonly holder?: string | undefined
  readonly plan: Plan
  readonly config: Config
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  readonly stop: Cancellation
  readonly record: Recorder
  readonly prepare: (candidate: Candidate) => Sent<T> | null
  /** A target's head has come. */
  readonly heard: (target: Target, headers: HeaderLookup) => void
}

/** `value`: the answer, read; `flow.whole` is its text. The ticket is the caller's to end. */
export type Body<T> = Routed<Sent<T>> & { readonly value: T }

export const callForBody = async <T>(tools: RoutingDeps, call: Call<T>): Promise<Body<T> | NotRouted> => {
  const { world, activeCalls: live } = tools
  const { client, clientKey, holder, plan, config, keysOf, stop, record, heard } = call
  const { settings } = config
  const bodies = new Map<Candidate, Sent<T> | null>()
  const prepare = ({ candidate }: Target): Sent<T> | null => {
    const known = bodies.get(candidate)
    if (known !== undefined) return known
    const made = call.prepare(candidate)
    bodies.set(candidate, made)
    return made
  }
  /** What the one attempt that succeeded has read. */
  let found: Read<T> | undefined
  const begin = (target: Target, { url, headers, auth, body, late, read, decodeFailure, quirks }: Sent<T>): Attempt =>
    new Attempt(tools, {
      url,
      headers: headers(target.key),
      identity: identityOf(target.candidate.instance, target.key, auth),
      body: late?.source.text ?? body,
      ...(late && { source: late.source }),
      protocol: formatOf(decodeFailure, (answer) => {
        const outcome = read(answer)
        found = outcome.ok ? outcome.value : undefined
        return outcome
      }),
      quirks,
      key: target.key,
      translated: null,
      stream: false,
      holdbackMs: Number.POSITIVE_INFINITY,
      allowEmptyText: true,
      skipMalformedEvents: false,
      settings,
      client: holder,
      onHeaders: (lookup) => heard(target, lookup),
    })
  live.startDeadline(world, stop, settings.timeout.request)
  try {
    const opened = await route(
      tools,
      {
        id: record.id,
        client,
        clientKey,
        plan,
        config,
        deadline: stop.until,
        stop,
        keysOf,
        note: (fact) => record.note(fact),
      },
      { prepare, makeReady: ({ late }) => writeInTurns(late, world.turn), begin },
    )
    if (!opened.ok) return opened
    if (!found) throw new Error('an answer was taken that nobody has read')
    return { ...opened, value: found.value }
  } finally {
    stop.clearDeadline()
  }
}

/** The answer as events, which is what an attempt understands: how much it cost, and that it is complete. */
const formatOf = (
  decodeFailure: UpstreamProtocol['decodeFailure'],
  read: (body: Json) => Outcome<Read<unknown>>,
): AnswerFormat => ({
  decodeFailure,
  decodeAnswer: (body) => {
    const outcome = read(body)
    if (!outcome.ok) return [{ type: 'failure', failure: outcome.failure }]
    const { usage } = outcome.value
    return [
      ...(usage ? [{ type: 'usage', usage } as const] : []),
      { type: 'finish', finish: { kind: 'stop', raw: null } },
    ]
  },
  decodeStream: () => ({
    push: () => [],
    end: () => [
      { type: 'failure', failure: fail('malformed', 'the upstream answered with a stream nobody asked for') },
    ],
  }),
})
