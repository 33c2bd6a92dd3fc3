/** The attempts to open a session of the Realtime API, for the router. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { pathSegment } from '../../core/path-segment.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { Target } from '../../core/target.ts'
import type { OngoingCall } from '../../core/world.ts'
import { malformed } from '../../protocols/errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../../protocols/errors/openai-error.ts'
import type { AttemptSpec } from '../routing/attempt-spec.ts'
import type { RouterDeps } from '../routing/route-context.ts'
import { Attempt } from '../upstream/attempt.ts'
import { type AnswerBodyReader, type AnswerFormat, SWITCHED } from '../upstream/body-reader.ts'
import { clientHeadersFor } from '../upstream/client-headers.ts'
import { type Compatibility, identityOf, providerHeaders } from '../upstream/outbound-request.ts'

/** The request for one target. */
export type PreparedRealtime = Compatibility & { readonly url: string }

type RealtimeRequest = {
  /** Of the client. */
  readonly headers: HeaderLookup
  readonly settings: Settings
}

const PATH = '/realtime?model={model}'

export class RealtimeAttempts implements AttemptSpec<PreparedRealtime> {
  readonly #deps: RouterDeps
  readonly #request: RealtimeRequest
  readonly #calls = new Map<Target, OngoingCall>()

  constructor(deps: RouterDeps, request: RealtimeRequest) {
    this.#deps = deps
    this.#request = request
  }

  /** The call of the attempt at a target. */
  callTo(target: Target): OngoingCall {
    const call = this.#calls.get(target)
    if (!call) throw new Error('no attempt was begun at this target')
    return call
  }

  prepare({ candidate: { instance, model } }: Target): PreparedRealtime | null {
    const { relays, quirks } = instance.provider
    const support = relays?.realtime
    if (!support) return null
    const path = (support.path ?? PATH).replace('{model}', () => pathSegment(model))
    return {
      url: instance.baseUrl + (quirks?.path?.(path, model, instance.variables) ?? path),
      dropped: [],
      unfit: [],
      droppable: [],
      doubts: [],
    }
  }

  begin(target: Target, { url }: PreparedRealtime, traced?: Readonly<Record<string, string>>): Attempt {
    const { headers, settings } = this.#request
    const { instance, override } = target.candidate
    const { provider } = instance
    return new Attempt(this.#deps, {
      url,
      upgrade: 'websocket',
      headers: {
        ...providerHeaders(instance, target.key, provider.auth),
        ...clientHeadersFor(instance, headers, true),
      },
      traced,
      identity: identityOf(instance, target.key, provider.auth),
      egress: instance.egress,
      protocol: FORMAT,
      quirks: provider.quirks,
      key: target.key,
      ...(instance.headers && { secrets: Object.values(instance.headers) }),
      translated: null,
      // Until the status arrives `circuit.timeout` applies.
      stream: false,
      once: true,
      holdbackMs: 0,
      allowEmptyText: true,
      skipMalformedEvents: false,
      settings: withIdle(settings),
      override: override && { ...override, timeout: {} },
      onHeaders: (received) => this.#deps.health.load.recordQuota(target, received),
      onCall: (call) => this.#calls.set(target, call),
    })
  }

  sentText(): string {
    return ''
  }
}

/** Silence of the upstream ends a session after a time of its own. */
const withIdle = (settings: Settings): Settings => ({
  ...settings,
  timeout: { ...settings.timeout, idle: settings.realtime.idle },
})

/** Content that the gateway does not read, and no tokens: responses have rows of their own. */
const OPENED: readonly ChatEvent[] = [
  { type: 'open', block: { type: 'foreign', protocol: 'openai-chat', raw: {} } },
  { type: 'usage', usage: { input: 0, output: 0 } },
]
const NO_EVENTS: readonly ChatEvent[] = []

/** Passes the bytes of the connection on. */
class SwitchedReader implements AnswerBodyReader {
  #isOpen = false

  push(chunk: Uint8Array): readonly StreamStep[] {
    const events = this.#isOpen ? NO_EVENTS : OPENED
    this.#isOpen = true
    return [{ frame: { data: '', raw: chunk }, events }]
  }

  end(): readonly StreamStep[] {
    return []
  }
}

const NOT_SWITCHED: AnswerBodyReader = {
  push: () => [],
  end: () => [
    { events: [{ type: 'failure', failure: malformed('it is not the status 101, which opens a WebSocket') }] },
  ],
}

const FORMAT: AnswerFormat = {
  decodeFailure: decodeOpenaiFailure,
  decodeAnswer: () => [
    { type: 'failure', failure: fail('malformed', 'the upstream sent JSON instead of a WebSocket') },
  ],
  decodeStream: () => ({ push: () => [], end: () => [] }),
  readerOf: ({ status }) => (status === SWITCHED ? new SwitchedReader() : NOT_SWITCHED),
}
