/** `headgate prove`: whether a claim about the data policy holds for the configuration here and its stored keys. */
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { ANONYMOUS, type Client, DEFAULT_TEAM, type Directory } from '../../core/accounts.ts'
import type { Settings } from '../../core/settings.ts'
import { combined } from '../../policy/accounts/data-policy.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { parseClaim } from '../../policy/prove/claim.ts'
import { type Counterexample, type Proof, prove } from '../../policy/prove/prove.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal, storedIn, validConfig } from '../local.ts'

/** The client of requests without a key and of keys of `auth.keys`; null: there are none. */
const keylessOf = ({ auth }: Settings, { teams, keys }: Directory): Client | null => {
  const isKeyed = auth.required === true || (auth.required === 'auto' && keys.size > 0)
  if (isKeyed && auth.keys.length === 0) return null
  const team = teams.get(DEFAULT_TEAM.id)
  const require = combined(team?.require)
  return { ...ANONYMOUS, access: team ? [team.access] : [], ...(require && { require }) }
}

const wayText = ({ key, name, style, provider, model, because, lack, after }: Counterexample): string => {
  const who = key === null ? 'a request without a key' : `key ${key}`
  const when = after.length === 0 ? '' : ` while ${after.join(', ')} ${after.length === 1 ? 'is' : 'are'} down`
  return `fails: ${who} asks "${name}" (${style})${when} → ${because} → ${provider}/${model} (${lack})`
}

const lines = ({ claim, holds, counterexamples, walked }: Proof): readonly string[] =>
  holds
    ? [
        `holds: ${claim} · ${walked.clients} clients in ${walked.classes} classes, ${walked.names} names, ${walked.plans} plans`,
      ]
    : counterexamples.map(wayText)

const run = async (cli: Cli, text: string): Promise<void> => {
  const claim = parseClaim(text)
  if (!claim.ok) throw new CliError(EXIT.invalidConfig, claim.failure.message)
  const { config } = validConfig(await readLocal(cli.host))
  const stored = storedIn(cli.host.folder)(config.settings)
  if (!stored) throw new CliError(EXIT.unreachable, 'The stored keys cannot be read here, so nothing can be proved.')
  const directory = buildDirectory(config.accounts, stored)
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', cli.host.home))
  const keyless = keylessOf(config.settings, directory)
  const proof = prove(
    { sources: { config, lists: new Map(), catalogue }, directory, keyless, now: Date.now() },
    claim.value,
  )
  if (!proof.ok) throw new CliError(EXIT.invalidConfig, proof.failure.message)
  cli.answer(proof.value, () => lines(proof.value))
  if (!proof.value.holds) throw new CliError(EXIT.broken, 'The claim does not hold.')
}

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<claim>', 'SELECTOR: CONDITIONS; selectors: all, team, key, route, model, style')
    .addHelpText('after', "\nExample: headgate prove 'team=health: region in eu,local; retention=0'")
    .action((text: string) => run(cli(), text))
}
