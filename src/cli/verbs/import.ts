/** `headgate import`: a configuration of Headgate made of one of another gateway. */
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { Imported, ImportSource, KnownProviders } from '../../../packages/import/index.ts'
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { loadProviders } from '../../config/catalogue/load-providers.ts'
import { MAX_FILE } from '../../config/file-limit.ts'
import { maskerFor } from '../../config/problem.ts'
import { yamlExcess } from '../../config/yaml-limits.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { table } from '../table.ts'

/** The package that reads them, loaded when a file is read. */
const importers = () => import('../../../packages/import/index.ts')
type Importers = Awaited<ReturnType<typeof importers>>

type ImportOptions = { readonly out?: string; readonly env?: string; readonly strict?: true }

/** The text of a file; undefined if it does not exist. */
const textOf = async (path: string, name: string): Promise<string | undefined> => {
  try {
    const { size } = await stat(path)
    if (size > MAX_FILE) throw new CliError(EXIT.invalidConfig, `${name} has ${size} bytes, more than ${MAX_FILE}.`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new CliError(EXIT.invalidConfig, `${name} cannot be read.`)
  }
}

/** A gateway whose configurations can be read. */
type ImportOrigin = {
  readonly name: string
  /** The usual name of the file. */
  readonly file: string
  readonly about: string
  readonly further: string
  /** What a file without a configuration lacks. */
  readonly lacks: string
  readonly read: (importers: Importers, source: ImportSource, known: KnownProviders) => Imported | undefined
}

const ORIGINS: readonly ImportOrigin[] = [
  {
    name: 'litellm',
    file: 'config.yaml',
    about: "Read a configuration of LiteLLM's proxy (config.yaml) and print what each member becomes.",
    further: 'Reads the file only: variables (os.environ/NAME) become references, their values are not read.',
    lacks: "no list model_list, so it is no configuration of LiteLLM's proxy",
    read: ({ importLitellm }, source, { reserved }) => importLitellm(source, reserved),
  },
  {
    name: 'portkey',
    file: 'config.json',
    about: "Read a configuration of Portkey's gateway (config.json) and print what each member becomes.",
    further: 'Keys that are stored at Portkey become variables; set them before the start.',
    lacks: "no target and no setting of Portkey's, so it is none of its configurations",
    read: ({ importPortkey }, source, { reserved }) => importPortkey(source, reserved),
  },
  {
    name: 'openrouter',
    file: 'request.json',
    about: 'Read a request body or preset of OpenRouter (request.json) and print the route that replaces it.',
    further: 'The providers themselves come first, with keys of their own, and OpenRouter after them.',
    lacks: 'no model and no models, so it is no request of OpenRouter',
    read: ({ importOpenrouter }, source, known) => importOpenrouter(source, known),
  },
]

/** The providers of Headgate and the models that the catalogue lists for them. */
const knownProviders = async (home: URL): Promise<KnownProviders> => {
  const providers = await loadProviders()
  const catalogue = openCatalogue(() => {}, new URL('data/catalogue.json', home))
  return {
    reserved: new Set([...providers.values()].flatMap(({ name, aliases = [] }) => [name, ...aliases])),
    hasModel: (name, model) => catalogue.lists?.(providers.get(name)?.catalogue ?? name, model) ?? false,
  }
}

const readSourceFile = async (cli: Cli, { read, lacks }: ImportOrigin, file: string): Promise<Imported> => {
  const text = await textOf(resolve(cli.host.folder, file), file)
  if (text === undefined) throw new CliError(EXIT.invalidConfig, `${file} does not exist.`)
  const excess = yamlExcess(text)
  if (excess)
    throw new CliError(EXIT.invalidConfig, `${file}:${excess.line}: found ${excess.found}; allowed: ${excess.allowed}.`)
  const found = await importers()
  const parsed = found.parseSource(text)
  if (!parsed.ok)
    throw new CliError(EXIT.invalidConfig, `${file}:${parsed.line}: found ${parsed.why}; allowed: YAML or JSON.`)
  const imported = read(found, parsed.source, await knownProviders(cli.host.home))
  if (imported) return imported
  throw new CliError(EXIT.invalidConfig, `${file} has ${lacks}.`)
}

/** A line for `.env`. Throws for a value that such a line cannot hold. */
const envLine = (name: string, value: string): string => {
  for (const quote of ["'", '"', '`']) {
    const line = `${name}=${quote}${value}${quote}`
    if (parseEnv(line)[name] === value) return line
  }
  throw new CliError(EXIT.failed, `The value of ${name} cannot be written to a .env file; set the variable yourself.`)
}

/** Adds variables to the file and makes it readable for its owner only. Refuses names that it has already. */
const envText = async (path: string, name: string, literals: ReadonlyMap<string, string>): Promise<string> => {
  const before = (await textOf(path, name)) ?? ''
  const present = parseEnv(before.replace(/^\ufeff/, ''))
  const taken = [...literals.keys()].find((one) => Object.hasOwn(present, one))
  if (taken !== undefined) throw new CliError(EXIT.conflict, `${name} has ${taken} already; name another file.`)
  const lines = [...literals].map(([one, value]) => envLine(one, value))
  return `${before}${before === '' || before.endsWith('\n') ? '' : '\n'}${lines.join('\n')}\n`
}

const write = async (cli: Cli, imported: Imported, yaml: string, { out, env }: ImportOptions): Promise<void> => {
  const { folder } = cli.host
  if (out !== undefined && (await textOf(resolve(folder, out), out)) !== undefined)
    throw new CliError(EXIT.conflict, `${out} exists already; name another file, or move it away.`)
  if (env !== undefined && imported.literals.size > 0) {
    const path = resolve(folder, env)
    const text = await envText(path, env, imported.literals)
    await writeFile(path, '', { flag: 'a', mode: 0o600 })
    await chmod(path, 0o600)
    await writeFile(path, text)
  }
  if (out !== undefined) await writeFile(resolve(folder, out), yaml, { flag: 'wx' })
}

const notes = ({ literals }: Imported, { out, env }: ImportOptions): readonly string[] => {
  const names = [...literals.keys()].join(', ')
  const where = env === undefined ? 'set these variables, or use --env' : `they are now in ${env}, with mode 0600`
  return [
    ...(names === '' ? [] : [`warning: literal secrets in the source: ${names}; ${where}`]),
    out === undefined
      ? 'Nothing is written. Add --out headgate.yaml.'
      : `Written: ${out}. Check it: headgate config check ${out}`,
  ]
}

const runImport = async (cli: Cli, origin: ImportOrigin, file: string, options: ImportOptions): Promise<void> => {
  const imported = await readSourceFile(cli, origin, file)
  const mask = maskerFor({}, imported.literals.values())
  const rows = imported.rows.map((row) => ({ ...row, member: mask(row.member), to: mask(row.to), why: mask(row.why) }))
  const { yamlText } = await importers()
  const yaml = `# yaml-language-server: $schema=./node_modules/headgate/headgate.schema.json\n${yamlText(imported)}`
  await write(cli, imported, yaml, options)
  const count = (outcome: string): number => rows.filter((row) => row.outcome === outcome).length
  const [changed, leftOut] = [count('changed'), count('left out')]
  if (leftOut > 0 || (options.strict && changed > 0)) cli.exit(EXIT.failed)
  cli.answer({ object: 'import', rows, yaml: mask(yaml), variables: [...imported.literals.keys()] }, () => [
    ...table(
      ['LINE', 'MEMBER', 'RESULT', 'HERE', 'WHY'],
      rows.map(({ line, member, outcome, to, why }) => [String(line), member, outcome, to || '–', why]),
      cli,
    ),
    '',
    `${count('taken')} taken, ${changed} changed, ${leftOut} left out`,
  ])
  for (const note of notes(imported, options)) cli.note(note)
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate import litellm config.yaml --out headgate.yaml --env .env')
  for (const origin of ORIGINS)
    command
      .command(`${origin.name} [file]`)
      .description(origin.about)
      .option('--out <file>', 'write the configuration to a new file')
      .option('--env <file>', 'add keys that are literals in the source to this file, with mode 0600')
      .option('--strict', 'exit with 1 also if something is changed')
      .addHelpText(
        'after',
        `\n${origin.further}\nExits with 0 if all is taken or changed, with 1 if something is left out, and with 3 if the file cannot be read.\n\nExample: headgate import ${origin.name} ${origin.file} --out headgate.yaml`,
      )
      .action((file: string | undefined, options: ImportOptions) =>
        runImport(cli(), origin, file ?? origin.file, options),
      )
}
