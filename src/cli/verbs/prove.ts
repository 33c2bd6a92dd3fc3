/** `headgate prove`: whether a claim about the data policy holds for a configuration and the stored keys here. */
import { resolve } from 'node:path'
import { loadTexts, readTexts } from '../../config/load.ts'
import { problemLine } from '../../config/problem.ts'
import { atOnce } from '../../core/steps.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { parseClaim } from '../../policy/prove/claim.ts'
import { type ClaimState, claimStates } from '../../policy/prove/claim-states.ts'
import { principalSources } from '../../policy/prove/principals.ts'
import { type ProofInput, wayText } from '../../policy/prove/prove.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { localSources } from '../local.ts'

type ProveOptions = { readonly config?: string }

const linesOf = ({ claim, problem, proof }: ClaimState): readonly string[] => {
  if (!proof) return [`invalid: ${claim}: ${problem}`]
  if (!proof.holds) return proof.counterexamples.map((one) => `fails: ${wayText(one)}`)
  const { clients, classes, names, plans } = proof.walked
  const walked = `clients ${clients}, classes ${classes}, names ${names}, plans ${plans}`
  // Facts and lists alone have decided.
  return [`holds: ${claim} · ${walked}${plans === 0 ? ' (no target that they may use is against it)' : ''}`]
}

/** The claim, or those of the configuration. */
const run = async (cli: Cli, text: string | undefined, { config: file }: ProveOptions): Promise<void> => {
  if (text !== undefined) {
    const claim = parseClaim(text)
    if (!claim.ok) throw new CliError(EXIT.invalidConfig, claim.failure.message)
  }
  const { input, claims } = await inputOf(cli, file)
  const states = atOnce(claimStates(input, text === undefined ? claims : [text]))
  if (states.length === 0)
    throw new CliError(EXIT.invalidConfig, 'The configuration has no claims. Name one, or write some to `claims`.')
  const [only] = states
  if (text !== undefined && only?.proof === null) throw new CliError(EXIT.invalidConfig, only.problem ?? '')
  cli.answer(text === undefined ? states : only?.proof, () => states.flatMap(linesOf))
  if (states.some(({ state }) => state === 'invalid')) throw new CliError(EXIT.invalidConfig, 'A claim is not valid.')
  if (states.some(({ state }) => state === 'fails'))
    throw new CliError(EXIT.broken, text === undefined ? 'Not all claims hold.' : 'The claim does not hold.')
}

const inputOf = async (
  cli: Cli,
  file: string | undefined,
): Promise<{ readonly input: ProofInput; readonly claims: readonly string[] }> => {
  const here = await localSources(cli.host)
  const named = file === undefined ? here.env : { ...here.env, HEADGATE_CONFIG: resolve(here.folder, file) }
  const sources = { ...here, env: named }
  // Without a check of the claims, which is made here.
  const loaded = loadTexts(await readTexts(sources), sources)
  if (!loaded.ok)
    throw new CliError(
      EXIT.invalidConfig,
      `The configuration is invalid.\n${loaded.problems.map(problemLine).join('\n')}`,
    )
  const { config } = loaded
  const stored = sources.stored?.(config.settings) ?? null
  if (!stored) throw new CliError(EXIT.unreachable, 'The stored keys cannot be read here, so nothing can be proved.')
  const directory = buildDirectory(config.accounts, stored)
  const catalogue = sources.catalogue ?? (() => undefined)
  const input = {
    sources: { config, lists: new Map(), catalogue },
    ...principalSources(config, { directory, now: Date.now() }),
  }
  return { input, claims: config.claims.map(({ text }) => text) }
}

export const define: DefineVerb = (command, cli) => {
  command
    .argument(
      '[claim]',
      'SELECTOR: CONDITIONS; selectors: all, team, key, route, model, style. Default: all of `claims`',
    )
    .option('--config <file>', 'prove it for this file instead of headgate.yaml')
    .addHelpText('after', "\nExample: headgate prove 'team=health: region in eu,local; retention=0'")
    .action((text: string | undefined, options: ProveOptions) => run(cli(), text, options))
}
