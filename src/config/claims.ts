/**
 * Checks the claims of a configuration for the accounts of the file and of the database. With `prove.onFailure: refuse` one that does
 * not hold is a problem, otherwise a warning. Loaded only if there is a claim.
 */
import { type AccountRecords, NO_ACCOUNTS } from '../core/accounts.ts'
import type { Catalogue, FullConfig } from '../core/config.ts'
import type { Settings } from '../core/settings.ts'
import { inTurns, type TurnScheduler } from '../core/steps.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { type ClaimState, claimStates } from '../policy/prove/claim-states.ts'
import { principalSources } from '../policy/prove/principals.ts'
import { type Problem, problemLine, quote } from './problem.ts'

export type ClaimSources = {
  /** As in `Texts`. */
  readonly stored?: ((settings: Settings) => AccountRecords | null) | undefined
  /** Absent: no model is known. */
  readonly catalogue?: Catalogue | undefined
}

export type CheckedClaims = { readonly problems: readonly Problem[]; readonly warnings: readonly string[] }

const UNREAD =
  'The claims are not checked, because the stored teams and keys cannot be read. The data policy applies; headgate prove CLAIM checks one later'

/** Other work of the process goes on meanwhile. */
const turn: TurnScheduler = (run) => void setImmediate(run)

/** The claims that do not hold. */
export const checkClaims = async (config: FullConfig, sources: ClaimSources): Promise<CheckedClaims> => {
  const { claims, settings, accounts } = config
  const stored = sources.stored ? sources.stored(settings) : NO_ACCOUNTS
  if (stored === null) return { problems: [], warnings: [UNREAD] }
  const catalogue = sources.catalogue ?? (() => undefined)
  const directory = buildDirectory(accounts, stored)
  const input = {
    sources: { config, lists: new Map(), catalogue },
    ...principalSources(config, { directory, now: Date.now() }),
  }
  const texts = claims.map(({ text }) => text)
  const states = await inTurns(claimStates(input, texts), turn)
  const problems = states.flatMap((state, at) => problemOf(state, claims[at]?.place ?? ''))
  return settings.prove.onFailure === 'refuse'
    ? { problems, warnings: [] }
    : { problems: [], warnings: problems.map(problemLine) }
}

const problemOf = ({ claim, problem }: ClaimState, where: string): readonly Problem[] =>
  problem === null
    ? []
    : [
        {
          where,
          what: 'claims',
          found: `the claim ${quote(claim)}, which does not hold: ${problem}`,
          allowed: 'a claim that holds; correct it, or what requests may reach (headgate prove shows all ways)',
        },
      ]
