/** `headgate prove`: whether a claim about the data policy holds for the configuration here and its stored keys. */
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { parseClaim } from '../../policy/prove/claim.ts'
import { principalSources } from '../../policy/prove/principals.ts'
import { type Proof, prove, wayText } from '../../policy/prove/prove.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal, storedIn, validConfig } from '../local.ts'

const lines = ({ claim, holds, counterexamples, walked }: Proof): readonly string[] =>
  holds
    ? [
        `holds: ${claim} · ${walked.clients} clients in ${walked.classes} classes, ${walked.names} names, ${walked.plans} plans`,
      ]
    : counterexamples.map((one) => `fails: ${wayText(one)}`)

const run = async (cli: Cli, text: string): Promise<void> => {
  const claim = parseClaim(text)
  if (!claim.ok) throw new CliError(EXIT.invalidConfig, claim.failure.message)
  const { config } = validConfig(await readLocal(cli.host))
  const stored = storedIn(cli.host.folder)(config.settings)
  if (!stored) throw new CliError(EXIT.unreachable, 'The stored keys cannot be read here, so nothing can be proved.')
  const directory = buildDirectory(config.accounts, stored)
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', cli.host.home))
  const sources = { config, lists: new Map(), catalogue }
  const proof = prove({ sources, ...principalSources(config, { directory, now: Date.now() }) }, claim.value)
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
