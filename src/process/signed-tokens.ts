/** Signed tokens of clients: loaded once `auth.jwt` has a rule, and those of people once one is presented. */
import type { Client } from '../core/accounts.ts'
import type { FullConfig } from '../core/config.ts'
import { memoizeLast } from '../core/memoize-last.ts'
import type { SeenIdentity } from '../core/seen-identity.ts'
import type { World } from '../core/world.ts'
import type { TokenClients } from '../issuers/token-clients.ts'
import type { Log } from '../observe/log.ts'
import type { KeyStore } from '../records/store/key-store.ts'
import type { Decision } from '../records/store/record-operations.ts'
import type { PersonTokens } from '../server/person-tokens.ts'
import { ACCESS_TOKEN, type SignedTokens } from '../server/signed-tokens.ts'

export type TokenIssuers = {
  /** Null: there is no rule. */
  readonly signed: () => SignedTokens | null
  /** Uses the rules of the configuration. */
  readonly follow: () => void
  /** The subjects that this process has seen, the latest first. */
  readonly seen: () => readonly SeenIdentity[]
  /** The subject of a client that was seen. */
  readonly nameOf: (id: string) => string | undefined
  /** A client that was seen, if a token of it is still valid here. */
  readonly clientNow: (client: Pick<Client, 'id' | 'owner'>) => Client | null
}

type IssuersDeps = {
  readonly current: { readonly config: FullConfig }
  readonly keys: Pick<KeyStore, 'directory' | 'decisions'>
  readonly log: Log
}

export const openIssuers = ({ current, keys, log }: IssuersDeps, world: Pick<World, 'date' | 'dial'>): TokenIssuers => {
  let loaded: TokenClients | null = null
  let loading: Promise<TokenClients> | null = null
  const rules = () => current.config.tokenRules
  const load = async (): Promise<TokenClients> => {
    const [{ TokenClients }, { fetchKeySet }, { keptSets }] = await Promise.all([
      import('../issuers/token-clients.ts'),
      import('../issuers/fetch-key-set.ts'),
      import('../issuers/kept-sets.ts'),
    ])
    const { date, dial } = world
    const clients = new TokenClients({
      date,
      directory: keys.directory,
      blocked: () => blockedSubjects(keys.decisions()),
      fetchSet: (place) => fetchKeySet({ dial, network: () => current.config.network }, place),
      kept: keptSets(current.config.settings.data.dir),
      onProblem(issuer, problem) {
        if (problem === null) return log.info('jwt', { message: `The keys of ${issuer} can be read again.` })
        const message = `The keys of ${issuer} cannot be read: ${problem}. The last ones are used for 24 h; without any, its tokens get 503 keys_unavailable.`
        log.warn('jwt', { message })
      },
    })
    clients.use(rules())
    loaded = clients
    return clients
  }
  const ready = (): Promise<TokenClients> => {
    // A load that failed is tried again.
    loading ??= load().catch((error) => {
      loading = null
      throw error
    })
    return loading
  }
  let people: PersonTokens | null = null
  const sso = () => current.config.sso
  const signed: SignedTokens = {
    find: (digest) => people?.find(digest) ?? loaded?.find(digest),
    async verify(token, digest) {
      // No rule admits their algorithm.
      if (sso() === null || !token.startsWith(ACCESS_TOKEN)) return (await ready()).verify(token, digest)
      const { PersonTokens } = await import('../server/person-tokens.ts')
      people ??= new PersonTokens({
        settings: sso,
        directory: keys.directory,
        ended: () => endedSignIns(keys.decisions()),
        now: world.date,
      })
      return people.verify(token, digest)
    },
  }
  return {
    signed: () => (rules().length === 0 && sso() === null ? null : signed),
    follow() {
      if (loaded) loaded.use(rules())
      else if (rules().length > 0)
        ready().catch((error) => log.error('jwt', { message: `Support for tokens cannot be loaded: ${error}` }))
    },
    seen: () => loaded?.seen() ?? [],
    nameOf: (id) => loaded?.nameOf(id) ?? people?.nameOf(id),
    clientNow: (client) => loaded?.clientNow(client) ?? people?.clientNow(client.id) ?? null,
  }
}

const endedSignIns = memoizeLast(
  (decisions: readonly Decision[]): ReadonlySet<string> =>
    new Set(decisions.flatMap(({ kind, id }) => (kind === 'sign_in' ? [id] : []))),
)

/** The ends of blocks, by issuer, claim and subject. */
const blockedSubjects = memoizeLast((decisions: readonly Decision[]): ReadonlyMap<string, number> | null => {
  const blocked = decisions.filter(({ kind }) => kind === 'identity')
  return blocked.length === 0 ? null : new Map(blocked.map(({ id, until }) => [id, until ?? Number.POSITIVE_INFINITY]))
})
