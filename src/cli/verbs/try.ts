/** `headgate try`: one prompt to several models at the same time, with the answers and their figures. */
import { z } from 'zod'
import { type JsonObject, parseObject } from '../../core/json.ts'
import { plain } from '../../observe/line.ts'
import { wholeNumber } from '../arguments.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { moneyText, table } from '../table.ts'

type TryOptions = { readonly model: string; readonly stream?: true; readonly key?: string; readonly maxTokens?: string }

/** A model's answer. Times in ms. */
type Trial = {
  readonly asked: string
  readonly provider: string | null
  readonly model: string | null
  readonly status: number
  readonly error: string | null
  readonly text: string
  readonly first_ms: number | null
  readonly total_ms: number
  readonly input: number | null
  readonly output: number | null
  /** In dollars, if the response states it. */
  readonly cost: string | null
}

/** Whether the gateway did not accept the key. */
const isRefused = ({ status }: Trial): boolean => status === 401 || status === 403

/** Time limit of an answer, in ms. */
const TIMEOUT = 10 * 60_000

/** A chunk of a chat completion. What a provider sends in another form is no part of the answer. */
const CHUNK = z.object({
  error: z
    .object({ message: z.string().catch('The stream ended with an error.') })
    .optional()
    .catch(undefined),
  usage: z
    .object({ prompt_tokens: z.number().nullish(), completion_tokens: z.number().nullish() })
    .nullish()
    .catch(null),
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })).catch([]),
})
type Chunk = z.output<typeof CHUNK>

/** `request` names the model. */
const askModel = async (
  gateway: GatewayClient,
  request: JsonObject & { readonly model: string },
  key: string | undefined,
  onText: (text: string) => void,
): Promise<Trial> => {
  const begun = performance.now()
  const since = () => Math.round(performance.now() - begun)
  const response = await gateway.send('/v1/chat/completions', {
    method: 'POST',
    body: { ...request, stream: true, stream_options: { include_usage: true } },
    ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
    timeout: TIMEOUT,
  })
  const found = {
    asked: request.model,
    provider: response.headers.get('x-headgate-provider'),
    model: response.headers.get('x-headgate-model'),
    status: response.status,
    cost: response.headers.get('x-headgate-cost'),
  }
  if (!response.ok || !response.body) {
    const { message } = errorOf(response, await bodyOf(response))
    return { ...found, error: message, text: '', first_ms: null, total_ms: since(), input: null, output: null }
  }
  let [answer, error]: [string, string | null] = ['', null]
  let first: number | null = null
  let usage: Chunk['usage']
  for await (const event of chunksOf(response.body)) {
    error = event.error?.message ?? error
    usage = event.usage ?? usage
    const piece = event.choices[0]?.delta.content ?? ''
    if (piece === '') continue
    first ??= since()
    answer += piece
    onText(piece)
  }
  return {
    ...found,
    error,
    text: answer,
    first_ms: first,
    total_ms: since(),
    input: usage?.prompt_tokens ?? null,
    output: usage?.completion_tokens ?? null,
  }
}

/** The chunks of a chat stream. The gateway writes one line `data:` for each. */
async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Chunk> {
  let rest = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const event = line.startsWith('data: {') ? parseObject(line.slice(6)) : undefined
      if (event) yield CHUNK.parse(event)
    }
  }
}

const figure = (value: number | null): string => (value === null ? '–' : String(value))

const summary = (trials: readonly Trial[], cli: Cli): readonly string[] =>
  table(
    ['MODEL', 'ANSWERED BY', 'STATUS', 'FIRST MS', 'TOTAL MS', 'IN', 'OUT', 'COST'],
    trials.map((trial) => [
      trial.asked,
      trial.provider === null ? '–' : `${trial.provider}/${trial.model ?? ''}`,
      { text: String(trial.status), paint: trial.error === null ? cli.paint.good : cli.paint.bad },
      figure(trial.first_ms),
      figure(trial.total_ms),
      figure(trial.input),
      figure(trial.output),
      moneyText(trial.cost),
    ]),
    cli,
  )

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<prompt>', 'the text of the user message')
    .option('-m, --model <names>', 'models or routes, comma list', 'auto')
    .option('--stream', 'print the answer of a single model as it arrives')
    .option('--max-tokens <count>', 'limit of each answer')
    .option('--key <key>', 'client key (HEADGATE_API_KEY)')
    .addHelpText(
      'after',
      '\nExample: headgate try "Explain SSE in one sentence." -m openai/gpt-5-mini,anthropic/claude-haiku-4-5',
    )
    .action(async (prompt: string, options: TryOptions) => {
      const { answer, exit, host, options: global, paint } = cli()
      const gateway = await gatewayOf(cli())
      const names = options.model
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean)
      const shown = options.stream === true && names.length === 1 && !global.json
      const request = {
        messages: [{ role: 'user', content: prompt }],
        ...(options.maxTokens !== undefined && { max_tokens: wholeNumber('--max-tokens', options.maxTokens) ?? null }),
      }
      const onText = (piece: string) => {
        if (shown) host.stdout.write(piece.replace(/[\p{Cc}]/gu, (char) => (char === '\n' ? char : '\u{fffd}')))
      }
      const key = options.key ?? gateway.key
      const trials = await Promise.all(names.map((name) => askModel(gateway, { ...request, model: name }, key, onText)))
      if (trials.some(({ error }) => error !== null)) exit(trials.every(isRefused) ? EXIT.notPermitted : EXIT.failed)
      answer({ object: 'list', data: trials }, () => [
        ...(shown
          ? ['', '']
          : trials.flatMap((trial) => [
              paint.bold(plain(trial.asked)),
              ...(trial.error === null ? trial.text : trial.error).split('\n').map((line) => `  ${plain(line)}`),
              '',
            ])),
        ...summary(trials, cli()),
      ])
    })
}
