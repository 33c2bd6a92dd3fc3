/** A request of the playground as a program. Pure. */
import { isPlainObject, type PlainObject } from '../../../src/core/plain-json.ts'
import { type BuiltRequest, type PlaygroundSettings, requestOf } from './request.ts'

export const SNIPPETS = ['curl', 'node', 'python', 'ai-sdk'] as const
export type SnippetName = (typeof SNIPPETS)[number]

/** `url`: without /v1. */
export type GatewayAddress = { readonly url: string; readonly key: string }

const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const json = (value: unknown): string => JSON.stringify(value, null, 2)

/** A value as a Python literal. Strings of JSON are strings of Python. */
const python = (value: unknown, indent = ''): string => {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  const inner = `${indent}    `
  const entries = Array.isArray(value)
    ? value.map((one) => `${inner}${python(one, inner)}`)
    : Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)}`)
  const [begin, end] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  return entries.length === 0 ? begin + end : `${begin}\n${entries.join(',\n')},\n${indent}${end}`
}

const METHODS: { readonly [path: string]: string } = {
  '/chat/completions': 'chat.completions.create',
  '/responses': 'responses.create',
  '/messages': 'messages.create',
}

const curl = ({ path, body }: BuiltRequest, { url, key }: GatewayAddress): string =>
  [
    `curl ${shellWord(`${url}/v1${path}`)}${body.stream === true ? ' --no-buffer' : ''}`,
    "-H 'content-type: application/json'",
    `-H ${shellWord(`authorization: Bearer ${key}`)}`,
    `-d ${shellWord(json(body))}`,
  ].join(' \\\n  ')

const node = ({ path, body }: BuiltRequest, { url, key }: GatewayAddress): string => {
  const isMessages = path === '/messages'
  const [name, pack] = isMessages ? ['Anthropic', '@anthropic-ai/sdk'] : ['OpenAI', 'openai']
  const base = isMessages ? url : `${url}/v1`
  const call = `await client.${METHODS[path]}(${json(body)})`
  return [
    `import ${name} from '${pack}'`,
    '',
    `const client = new ${name}({ baseURL: ${JSON.stringify(base)}, apiKey: ${JSON.stringify(key)} })`,
    ...(body.stream === true
      ? [`const stream = ${call}`, 'for await (const event of stream) console.log(event)']
      : [`const answer = ${call}`, 'console.log(answer)']),
    '',
  ].join('\n')
}

/** `output_config` and others that the SDK may not know are passed as they are. */
const pythonArguments = (body: PlainObject): string =>
  Object.entries(body)
    .map(([name, value]) => `    ${name}=${python(value, '    ')},`)
    .join('\n')

const pythonProgram = ({ path, body }: BuiltRequest, { url, key }: GatewayAddress): string => {
  const isMessages = path === '/messages'
  const [pack, name] = isMessages ? ['anthropic', 'Anthropic'] : ['openai', 'OpenAI']
  const base = isMessages ? url : `${url}/v1`
  const call = `client.${METHODS[path]}(\n${pythonArguments(body)}\n)`
  return [
    `from ${pack} import ${name}`,
    '',
    `client = ${name}(base_url=${JSON.stringify(base)}, api_key=${JSON.stringify(key)})`,
    ...(body.stream === true
      ? [`stream = ${call}`, 'for event in stream:', '    print(event)']
      : [`answer = ${call}`, 'print(answer)']),
    '',
  ].join('\n')
}

const aiSdk = (
  { system, prompt, temperature, maxTokens, stream }: PlaygroundSettings,
  model: string,
  gateway: GatewayAddress,
): string => {
  const [call, result] = stream ? ['streamText', 'textStream'] : ['generateText', 'text']
  const members = [
    `model: headgate(${JSON.stringify(model)})`,
    ...(system === '' ? [] : [`system: ${JSON.stringify(system)}`]),
    `prompt: ${JSON.stringify(prompt)}`,
    ...(temperature === '' ? [] : [`temperature: ${Number(temperature)}`]),
    ...(maxTokens === '' ? [] : [`maxOutputTokens: ${Number(maxTokens)}`]),
  ]
  return [
    "import { createOpenAICompatible } from '@ai-sdk/openai-compatible'",
    `import { ${call} } from 'ai'`,
    '',
    'const headgate = createOpenAICompatible({',
    "  name: 'headgate',",
    `  baseURL: ${JSON.stringify(`${gateway.url}/v1`)},`,
    `  apiKey: ${JSON.stringify(gateway.key)},`,
    '})',
    `const { ${result} } = ${stream ? '' : 'await '}${call}({`,
    ...members.map((member) => `  ${member},`),
    '})',
    stream ? 'for await (const part of textStream) process.stdout.write(part)' : 'console.log(text)',
    '',
  ].join('\n')
}

/** Long images would fill the clipboard. */
const shortened = (value: unknown): unknown => {
  if (typeof value === 'string' && value.length > 4_000 && /^(?:data:image\/|[A-Za-z0-9+/]{4000})/.test(value))
    return 'IMAGE'
  if (Array.isArray(value)) return value.map(shortened)
  return isPlainObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one)]))
    : value
}

/** The program. The AI SDK has the text, system, temperature and length only. */
export const snippet = (
  name: SnippetName,
  settings: PlaygroundSettings,
  model: string,
  gateway: GatewayAddress,
): string => {
  if (name === 'ai-sdk') return aiSdk(settings, model, gateway)
  const { path, body } = requestOf(settings, model)
  const built = { path, body: Object.fromEntries(Object.entries(body).map(([key, one]) => [key, shortened(one)])) }
  return { curl, node, python: pythonProgram }[name](built, gateway)
}
