/** System files: how a gateway is reached, which styles it claims, and how its configuration is made. */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { STYLES, type Style } from './wire.ts'

type Tree = string | number | boolean | null | readonly Tree[] | { readonly [member: string]: Tree }

/** A program that is started for a run. `{port}`, `{config}`, `{dir}` are filled in. */
type Start = {
  readonly command: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly ready: string
}

/** The configuration of a gateway: one text, with a part for each model. */
type Template = {
  /** Values by style. */
  readonly by_style?: Readonly<Record<string, Values>>
  readonly file: string
  readonly head: string
  readonly parts: readonly { readonly title: string; readonly each: string }[]
}

/** `params` are those of FailoverBench's `endpoint`, so that its system files can be used. */
type Written = {
  readonly name: string
  readonly label?: string
  readonly version?: string
  readonly styles?: readonly Style[]
  /** Scenarios that do not apply, with the page that says so. */
  readonly not_claimed?: Readonly<Record<string, string>>
  readonly params: {
    readonly base_url: string
    readonly api_key?: string
    readonly model_format?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly headers_json?: { readonly [name: string]: Tree }
    readonly extra_body?: { readonly [name: string]: Tree }
  }
  readonly config?: Template
  readonly start?: Start
}

export type SystemFile = {
  readonly name: string
  readonly label: string
  readonly version: string
  readonly styles: readonly Style[]
  readonly notClaimed: Readonly<Record<string, string>>
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly config: Template | undefined
  readonly start: Start | undefined
  readonly request: (ask: { readonly model: string; readonly fallback: string; readonly style: Style }) => {
    readonly model: string
    readonly headers: Readonly<Record<string, string>>
    readonly extraBody: object
  }
}

export type Values = Readonly<Record<string, string>>

/** Replaces `{name}` by its value; unknown names stay. */
export const fill = (text: string, values: Values): string =>
  text.replace(/\{([a-z_]+)\}/g, (whole, name: string) => values[name] ?? whole)

const fillTree = (tree: Tree, values: Values): Tree => {
  if (typeof tree === 'string') return fill(tree, values)
  if (Array.isArray(tree)) return tree.map((item) => fillTree(item, values))
  if (typeof tree !== 'object' || tree === null) return tree
  return Object.fromEntries(Object.entries(tree).map(([name, value]) => [name, fillTree(value, values)]))
}

/** Reads a system file. `values`: addresses and ports of this run. `place`: the values of a model, such as its vendor's address. */
export const readSystem = (text: string, values: Values, place: (model: string) => Values): SystemFile => {
  // A system file is checked by use: what is missing is named.
  const { params, ...written } = parse(text) as Written
  if (!written.name || !params?.base_url) throw new Error('A system file needs name and params.base_url.')
  const unknown = written.styles?.find((style) => !STYLES.includes(style))
  if (unknown) throw new Error(`Unknown style "${unknown}". The styles are ${STYLES.join(', ')}.`)
  const format = (model: string) => fill(params.model_format ?? '{model}', { model })
  return {
    name: written.name,
    label: written.label ?? written.name,
    version: fill(written.version ?? 'unknown', values),
    // FailoverBench's files are about chat completions.
    styles: written.styles ?? ['chat'],
    notClaimed: written.not_claimed ?? {},
    baseUrl: fill(params.base_url, values).replace(/\/$/, ''),
    apiKey: params.api_key,
    config: written.config,
    start: written.start,
    request: ({ model, fallback, style }) => {
      const all = {
        ...values,
        ...place(model),
        model: format(model),
        primary: format(model),
        fallback: format(fallback),
        style,
      }
      const json = Object.entries(params.headers_json ?? {}).map(([name, tree]) => [
        name,
        JSON.stringify(fillTree(tree, all)),
      ])
      const plain = Object.entries(params.headers ?? {}).map(([name, value]) => [name, fill(value, all)])
      return {
        model: format(model),
        headers: Object.fromEntries([...plain, ...json]),
        extraBody: fillTree(params.extra_body ?? {}, all) as object,
      }
    },
  }
}

export const systemText = (path: string): string => readFileSync(path, 'utf8')

/** The configuration for these models, each with its values. */
export const configText = (
  { head, parts, by_style: byStyle = {} }: Template,
  values: Values,
  models: readonly Values[],
): string =>
  [
    fill(head, values),
    ...parts.flatMap(({ title, each }) => [
      title,
      ...new Set(models.map((model) => fill(each, { ...values, ...byStyle[model.style ?? ''], ...model }))),
    ]),
  ].join('\n')
