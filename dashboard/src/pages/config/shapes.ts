/** Shapes of the configuration's answers, and what is made from them. Pure. */
export type ShownProblem = {
  readonly where: string
  readonly what: string | null
  readonly found: string
  readonly allowed: string
}
export type ShownSetting = {
  readonly name: string
  readonly value: unknown
  readonly origin: string
  readonly variable: string
  readonly about: string
}
export type ShownProvider = {
  readonly id: string
  readonly kind: string
  readonly base_url: string
  readonly keys: readonly string[]
  readonly models: readonly string[]
  readonly origin: string
}
export type FileRoute = {
  readonly name: string
  readonly targets: readonly { readonly provider: string; readonly model?: string; readonly weight?: number }[]
  readonly origin: string
}
export type ShownConfig = {
  readonly stale: boolean
  readonly settings: readonly ShownSetting[]
  readonly providers: readonly ShownProvider[]
  readonly routes: readonly FileRoute[]
  readonly accounts: readonly {
    readonly kind: string
    readonly id: string
    readonly name: string
    readonly origin: string
  }[]
}
export type ConfigProblems = {
  readonly since: string | null
  readonly problems: readonly ShownProblem[]
  readonly warnings: readonly string[]
}
export type ConfigReload = {
  readonly at: string
  readonly outcome: 'changed' | 'unchanged' | 'refused'
  readonly changes: readonly string[]
  readonly warnings: readonly string[]
  readonly problems: readonly ShownProblem[]
}
export type CheckedText = {
  readonly ok: boolean
  readonly problems: readonly ShownProblem[]
  readonly warnings: readonly string[]
  readonly changes: readonly string[]
  /** Null: there is no such route. */
  readonly routes: readonly {
    readonly model: string
    readonly before: readonly string[] | null
    readonly after: readonly string[] | null
  }[]
}

const isInFile = (origin: string): boolean => /:[0-9]+$/.test(origin)

/** A value as the page shows it; null: it is not set. */
export const valueText = (value: unknown): string | null =>
  value === null || value === undefined
    ? null
    : typeof value === 'string'
      ? value
      : Array.isArray(value) && value.every((one) => typeof one === 'string')
        ? value.join(', ')
        : JSON.stringify(value)

/** Values of secrets are `set` or counted. */
const isMasked = (value: unknown): boolean =>
  value === 'set' || (typeof value === 'string' && /^[0-9]+ values?$/.test(value))

/**
 * YAML of what the file sets: settings, providers without what is secret or not known here, and routes. JSON is YAML, so
 * values are written as JSON. `comments`: the first lines.
 */
export const yamlOf = ({ settings, providers, routes }: ShownConfig, comments: readonly string[]): string => {
  const groups = new Map<string, string[]>()
  for (const { name, value, origin } of settings) {
    if (!isInFile(origin) || value === null || isMasked(value)) continue
    const [group = '', member] = name.split('.')
    const text = JSON.stringify(value)
    if (member === undefined) groups.set(`${group}: ${text}`, [])
    else groups.set(`${group}:`, [...(groups.get(`${group}:`) ?? []), `  ${member}: ${text}`])
  }
  const instances = providers
    .filter(({ origin }) => isInFile(origin))
    .flatMap(({ id, kind, base_url, models }) => [
      `  ${JSON.stringify(id)}:`,
      `    kind: ${JSON.stringify(kind)}`,
      `    baseUrl: ${JSON.stringify(base_url)}`,
      ...(models.length > 0 ? [`    models: ${JSON.stringify(models)}`] : []),
    ])
  const places = routes
    .filter(({ origin }) => isInFile(origin))
    .flatMap(({ name, targets }) => [
      `  ${JSON.stringify(name)}:`,
      '    targets:',
      ...targets.map(({ provider, model, weight = 1 }) => {
        const place = JSON.stringify(model === undefined ? provider : `${provider}/${model}`)
        return `      - ${weight === 1 ? place : JSON.stringify({ provider, model, weight })}`
      }),
    ])
  return [
    ...comments.map((line) => `# ${line}`),
    ...[...groups].flatMap(([head, members]) => [head, ...members]),
    ...(instances.length > 0 ? ['providers:', ...instances] : []),
    ...(places.length > 0 ? ['routes:', ...places] : []),
    '',
  ].join('\n')
}

const LEFT_OUT = 'keys, styles, aggregate and variables of providers'

/** The parts of the file that `yamlOf` leaves out, by name. */
export const omittedParts = ({ settings, providers, accounts }: ShownConfig): readonly string[] => [
  ...settings.filter(({ origin, value }) => isInFile(origin) && isMasked(value)).map(({ name }) => name),
  ...(providers.some(({ origin }) => isInFile(origin)) ? [LEFT_OUT] : []),
  ...new Set(accounts.filter(({ origin }) => isInFile(origin)).map(({ kind }) => `${kind}s`)),
]
