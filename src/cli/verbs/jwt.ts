/** `headgate jwt`: checks a token by the configuration of this folder, without a gateway and without a network. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { readJson } from '../../core/json.ts'
import type { KeySetPlace } from '../../core/token-rule.ts'
import { keptSets } from '../../issuers/kept-sets.ts'
import { isSigned } from '../../issuers/signature.ts'
import { checkClaims } from '../../policy/identity/check-claims.ts'
import { chooseKey, type PublicKey, publicKeysOf } from '../../policy/identity/choose-key.ts'
import { type ReadToken, readToken } from '../../policy/identity/token-form.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { readLocal, validConfig } from '../local.ts'

type Signature = 'valid' | 'invalid' | 'not checked'

/** The keys that a gateway of this folder has; null: none so far. */
const keysAt = async (place: KeySetPlace, folder: string, dataDir: string): Promise<readonly PublicKey[] | null> => {
  if (place.file === null) return keptSets(dataDir).read(place)?.keys ?? null
  const content = await readFile(resolve(folder, place.file), 'utf8').catch(() => '')
  return publicKeysOf(readJson(content)) ?? null
}

const signatureOf = async (token: string, read: ReadToken, keys: readonly PublicKey[] | null): Promise<Signature> => {
  const key = keys && chooseKey(keys, read)
  // The issuer may have newer keys.
  if (!key) return 'not checked'
  return (await isSigned(token, key, read.algorithm)) ? 'valid' : 'invalid'
}

const check = async (cli: Cli, token: string): Promise<void> => {
  const local = await readLocal(cli.host)
  const { tokenRules } = validConfig(local).config
  const read = readToken(token.trim())
  const rules = read.ok ? tokenRules.filter(({ keys }) => keys.issuer === read.claims.iss) : []
  const [first] = rules
  const keys = first ? await keysAt(first.keys, cli.host.folder, local.dataDir) : null
  const signature = read.ok ? await signatureOf(token.trim(), read, keys) : 'not checked'
  const results = rules.map((rule) => {
    const result =
      read.ok && !rule.algorithms.includes(read.algorithm)
        ? { ok: false as const, reason: 'alg' }
        : checkClaims(rule, read.ok ? read.claims : {}, Date.now())
    return { rule: rule.name, identity: result.ok ? result.identity : null, reason: result.ok ? null : result.reason }
  })
  const accepted = results.find(({ identity }) => identity !== null)
  const isAccepted = accepted !== undefined && signature !== 'invalid'
  if (!isAccepted) cli.exit(EXIT.failed)
  const problem = read.ok ? (first ? null : `no rule for iss ${JSON.stringify(read.claims.iss)}`) : read.reason
  const { subject = null, team = null, user = null, tags = {} } = accepted?.identity ?? {}
  const checks = results.map(({ rule, reason }) => ({ rule, reason }))
  const shown = { object: 'token_check', accepted: isAccepted, signature, problem, subject, team, user, tags, checks }
  cli.answer(shown, () => [
    ...(problem === null ? [] : [cli.paint.bad(`refused: ${problem}`)]),
    ...checks.map(({ rule, reason }) =>
      reason === null ? `rule ${rule}: accepted` : `rule ${rule}: refused: ${reason}`,
    ),
    `signature: ${signature}${signature === 'not checked' ? ' (its key is not in the data folder; a gateway fetches it)' : ''}`,
    ...(subject === null ? [] : [`subject: ${subject}`, `team: ${team}`, `user: ${user ?? 'none'}`]),
    ...Object.entries(tags).map(([tag, value]) => `tag ${tag}: ${value}`),
  ])
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate jwt check "$TOKEN"')
  command
    .command('check <token>')
    .description('Check a token by the rules of auth.jwt in this folder. Nothing is sent.')
    .addHelpText('after', '\nExits with 1 if it is refused.\n\nExample: headgate jwt check "$TOKEN"')
    .action((token: string) => check(cli(), token))
}
