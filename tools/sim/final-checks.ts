/** Checks the end of a run: nothing is left, and every target that has recovered is used again. */
import { deploymentId, keyId, type Target } from '../../src/core/target.ts'
import type { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import type { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import type { SimAccounts } from './accounts.ts'
import type { AttemptChecks } from './attempt-checks.ts'
import { bodyFor } from './client.ts'
import type { SimClients } from './clients.ts'
import { only } from './setup.ts'
import type { SimState } from './state.ts'
import type { UpstreamModes } from './upstreams.ts'
import { cooldownIds } from './watch.ts'

/** The longest cooldown in ms: of a key without quota. */
const LONGEST_COOLDOWN = 6 * 3_600_000

type FinalDeps = {
  readonly activeCalls: ActiveCalls
  readonly health: UpstreamHealth
  readonly accounts: SimAccounts
  readonly modes: UpstreamModes
  readonly clients: SimClients
  readonly checks: AttemptChecks
}

export class FinalChecks {
  readonly #state: SimState
  readonly #deps: FinalDeps

  constructor(state: SimState, deps: FinalDeps) {
    this.#state = state
    this.#deps = deps
  }

  /** Call when no timer is left. */
  async run(): Promise<void> {
    if (this.#state.isFine) this.#atRest()
    if (this.#state.isFine) await this.#recover()
    if (this.#state.isFine) this.#atRest()
  }

  /** Checks that nothing is left after the last event. */
  #atRest(): void {
    const { calls, dials, seen, setup, watch, clock } = this.#state
    const { accounts, activeCalls, health, checks } = this.#deps
    const { hedges } = checks
    const left = (what: string) => watch.breach(14, `at the end ${what}`)
    const { hedge } = setup.config.settings
    if (hedges > 0) seen.add('hedge')
    if (100 * hedges > hedge.percent * calls.length)
      watch.breach(12, `${hedges} hedges of ${calls.length} requests are more than ${hedge.percent} %`)
    const billed = (request: string) =>
      calls[Number(request.slice('req_'.length))]?.dials.map(({ script }) => script.words) ?? []
    for (const problem of accounts.problems(billed)) watch.breach(29, problem)
    if (clock.live > 0) left(`${clock.live} timers are left`)
    if (activeCalls.size > 0) left(`${activeCalls.size} requests are still active`)
    if (watch.open > 0) left(`${watch.open} permits have no outcome`)
    for (const call of calls) if (!call.settled || call.later) left(`request ${call.number} has not ended`)
    for (const dial of dials)
      if (dial.played && !dial.played.over)
        left(`attempt ${dial.tag} (${dial.mode}) was neither read to its end nor aborted`)
    for (const instance of setup.config.instances)
      for (const key of instance.keys)
        if (health.load.inFlight(instance, key) !== 0) left(`${keyId(instance, key)} has load`)
  }

  /** All upstreams recover: every open circuit and cooldown must end after its time when a request arrives. */
  async #recover(): Promise<void> {
    const state = this.#state
    const { modes, health, accounts, clients } = this.#deps
    const { config } = state.setup
    modes.allHealthy = true
    state.isDraining = false
    for (const instance of config.instances)
      for (const model of instance.models)
        for (const key of instance.keys) {
          const target: Target = { candidate: { instance, model, because: '', weight: 1 }, key }
          const scopes = [...cooldownIds(target)]
          const isHealthy = () =>
            scopes.every(
              (id) => health.cooldowns.of(id) === undefined && state.watch.circuit(id, config.settings).at === 'closed',
            ) && scopes.every((id) => health.circuits.phase(id, config.settings.circuit).state === 'closed')
          // Targets that ever had a cooldown are called too, whether or not it has ended.
          if (isHealthy() && !scopes.some((id) => state.watch.troubled.has(id))) continue
          state.clock.jump(state.clock.now + Math.max(config.settings.circuit.resetTimeout, LONGEST_COOLDOWN) + 1)
          state.config = only(config, instance, key.id, model)
          state.trace(`recovery of ${deploymentId(target)}`)
          accounts.credit()
          const named = `${instance.id}/${model}`
          const number = state.calls.length
          const body = bodyFor({ style: 'chat', model: named, stream: false, usage: false, number })
          const call = clients.send(
            {
              style: 'chat',
              stream: false,
              model: named,
              poison: null,
              body,
              broken: false,
              client: '',
              key: null,
            },
            null,
          )
          await state.settle()
          await state.untilRest()
          if (!state.isFine) return
          if (call.reply.status !== 200 || !isHealthy())
            state.watch.breach(
              10,
              `${deploymentId(target)} has recovered but is not used: ${call.reply.status} ${call.reply.text}`,
            )
        }
  }
}
