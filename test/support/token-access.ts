/** Access by signed tokens without a process: rules of a YAML text, key sets in memory, and a clock of the test. */

import type { Client, Directory } from '../../src/core/accounts.ts'
import { NO_ACCOUNTS } from '../../src/core/accounts.ts'
import type { Outcome } from '../../src/core/failure.ts'
import type { FetchedSet } from '../../src/issuers/fetch-key-set.ts'
import type { KeptSet, KeptSets } from '../../src/issuers/kept-sets.ts'
import { TokenClients } from '../../src/issuers/token-clients.ts'
import { buildDirectory } from '../../src/policy/accounts/directory.ts'
import { publicKeysOf } from '../../src/policy/identity/choose-key.ts'
import { AccessRules, NOT_LOOKED_UP } from '../../src/server/access-rules.ts'
import { type ApiRoute, ROUTES } from '../../src/server/routes.ts'
import { loaded } from './config.ts'
import { type IssuerKey, jwkOf } from './issuer.ts'

const CHAT: ApiRoute = { name: 'chat', ...ROUTES.chat }

export const memorySets = (): KeptSets & { readonly sets: Map<string, KeptSet> } => {
  const sets = new Map<string, KeptSet>()
  return {
    sets,
    read: ({ issuer }) => sets.get(issuer),
    async write({ issuer }, set) {
      sets.set(issuer, set)
    },
  }
}

/** `keys` null: the issuer does not answer. */
export type FakeIssuers = { [issuer: string]: readonly IssuerKey[] | null }

export const tokenAccess = (yaml: string, issuers: FakeIssuers, kept: KeptSets = memorySets()) => {
  const { config } = loaded({ env: { OPENAI_API_KEY: 'k' }, yaml })
  const state = { now: Date.now(), fetches: 0, blocked: null as ReadonlyMap<string, number> | null }
  let directory: Directory = buildDirectory(config.accounts, NO_ACCOUNTS)
  const clients = new TokenClients({
    date: () => state.now,
    directory: () => directory,
    blocked: () => state.blocked,
    kept,
    onProblem() {},
    async fetchSet({ issuer }): Promise<FetchedSet> {
      state.fetches++
      const keys = issuers[issuer]
      if (!keys) return { ok: false, problem: 'no answer' }
      return {
        ok: true,
        keys: publicKeysOf(JSON.parse(JSON.stringify({ keys: keys.map(jwkOf) }))) ?? [],
        fresh: 600_000,
      }
    },
  })
  clients.use(config.tokenRules)
  const access = new AccessRules(
    {
      directory: () => directory,
      tokens: () => [],
      isNamed: () => true,
      isUnavailable: () => false,
      signed: () => clients,
      used() {},
    },
    { now: () => state.now, production: true },
  )
  const send = async (headers: Readonly<Record<string, string>>, route = CHAT): Promise<Outcome<Client>> => {
    const request = {
      route,
      address: '192.0.2.1',
      hosts: ['gw.example'],
      version: '1.1',
      headers: (name: string) => headers[name],
    } as const
    const checked = access.check(config.settings, request)
    return checked.ok || checked.failure !== NOT_LOOKED_UP ? checked : access.lookUp(config.settings, request)
  }
  return {
    state,
    clients,
    /** Sends a token as a bearer token. */
    ask: (token: string) => send({ authorization: `Bearer ${token}` }),
    send,
    useTeams(file: Directory): void {
      directory = file
    },
    directory: () => directory,
  }
}

/** What a request got: the subject, or the kind of its refusal and the reason in the log. */
export const resultOf = (outcome: Outcome<Client>): string =>
  outcome.ok ? `client ${outcome.value.name}` : `${outcome.failure.kind} ${outcome.failure.detail ?? ''}`.trim()
