/** Draws the requests of the simulated clients. */
import { type Chance, drawing, pick } from './chance.ts'
import { bodyFor, type SimRequest } from './client.ts'
import type { SimState } from './state.ts'
import type { Poison } from './upstreams.ts'
import type { Style } from './wires.ts'

const styles = drawing<Style>([
  ['chat', 3],
  ['responses', 2],
  ['messages', 2],
])
const poisons = drawing<Poison | null>([
  [null, 40],
  ['request', 1],
  ['policy', 1],
  ['context', 2],
])

type Chances = {
  readonly clients: Chance
  /** Of idempotency keys and of bodies that may be shared. Null: responses are not shared. */
  readonly sharing: Chance | null
}

export class RequestSource {
  readonly #state: SimState
  readonly #clients: Chance
  readonly #sharing: Chance | null

  constructor(state: SimState, { clients, sharing }: Chances) {
    this.#state = state
    this.#clients = clients
    this.#sharing = sharing
  }

  /** The request that is sent next. */
  next(): SimRequest {
    const chance = this.#clients
    const sharing = this.#sharing
    const number = this.#state.calls.length
    const style = styles(chance)
    const stream = chance() < 0.65
    const { instances, routes } = this.#state.config
    const one = instances.length > 0 ? instances[Math.floor(chance() * instances.length)] : undefined
    const model = pick(chance, [
      'm0',
      'm1',
      'm0',
      'auto',
      one ? `${one.id}/${one.models[0] ?? 'm0'}` : 'm0',
      routes.has('fast') ? 'fast' : 'm1',
    ])
    const broken = chance() < 0.02
    const strange = !broken && chance() < 0.02 ? 'unknown-model-0' : model
    const exact = sharing !== null && sharing() < 0.6
    const body = bodyFor({ style, model: strange, stream, usage: chance() < 0.5, number, exact })
    const sentBody = broken
      ? pick(chance, [body.slice(0, -9), '{}', body.replace(/"(messages|input)":/, '"missing":')])
      : body
    const poison = poisons(chance)
    const request: SimRequest = { style, stream, model: strange, poison, body: sentBody, broken, client: '', key: null }
    return sharing ? this.#withKey(request, sharing) : request
  }

  /** A request with an idempotency key: new, reused, or equal to another request. */
  #withKey(request: SimRequest, chance: Chance): SimRequest {
    const client = chance() < 0.5 ? 'c0' : 'c1'
    const key = chance() < 0.7 ? `key-${this.#state.calls.length}` : null
    const before = this.#state.calls[Math.floor(chance() * this.#state.calls.length)]
    const how = chance()
    if (!before || how > 0.5) return { ...request, client, key }
    const { request: first } = before
    // The same request; or its key with another client, or with another request.
    if (how < 0.35) return first
    return how < 0.43 ? { ...first, client } : { ...request, client: first.client, key: first.key }
  }
}
