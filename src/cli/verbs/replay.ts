/** `headgate replay`: sends a kept request again, and compares both answers. */
import { setTimeout as pause } from 'node:timers/promises'
import { type DifferencePart, difference, signedLines } from '../../core/difference.ts'
import { answerText } from '../../core/shown-answer.ts'
import { plain } from '../../observe/line.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { FOUND_REQUEST, REPLAYED, REQUEST_BODIES } from '../../server/answers/requests.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { requestLine } from '../request-lines.ts'

/** ms between two looks for the answer, and how long they go on for the request and then for its bodies. */
const LOOK = { every: 300, request: 600_000, bodies: 30_000 }

const pathOf = (id: string): string => `/admin/api/v1/requests/${encodeURIComponent(id)}`

/** Repeats a look until it finds something. */
const found = async <Found>(look: () => Promise<Found | null>, most: number, missing: string): Promise<Found> => {
  for (const end = performance.now() + most; performance.now() < end; await pause(LOOK.every)) {
    const value = await look()
    if (value !== null) return value
  }
  throw new CliError(EXIT.failed, missing)
}

type ComparedRequest = Shown<typeof FOUND_REQUEST>

/** The request once it has ended; null: it is not in the ledger yet. */
const endedRequest = async (gateway: GatewayClient, id: string): Promise<ComparedRequest | null> => {
  try {
    const request = await gateway.read(FOUND_REQUEST, pathOf(id))
    return request.ended_at === null ? null : request
  } catch (error) {
    if (error instanceof CliError && error.code === EXIT.conflict) return null
    throw error
  }
}

const textOf = async (gateway: GatewayClient, id: string): Promise<string | null> =>
  answerText((await gateway.read(REQUEST_BODIES, `${pathOf(id)}/bodies`)).bodies)

/** A request and the text of its answer. */
type Compared = { readonly request: ComparedRequest; readonly answer: string }

const comparedWith = async (
  gateway: GatewayClient,
  id: string,
  first: string,
): Promise<readonly [Compared, Compared]> => {
  const see = `See it with: headgate explain ${id}`
  const [before, answer] = await Promise.all([gateway.read(FOUND_REQUEST, pathOf(first)), textOf(gateway, first)])
  const request = await found(
    () => endedRequest(gateway, id),
    LOOK.request,
    `${id} has not ended within ${LOOK.request / 60_000} minutes. ${see}`,
  )
  if (request.outcome !== 'answered')
    throw new CliError(EXIT.failed, `${id} was not answered: ${request.code ?? request.outcome}. ${see}`)
  const again = await found(() => textOf(gateway, id), LOOK.bodies, `The answer of ${id} was not kept. ${see}`)
  if (answer === null) throw new CliError(EXIT.conflict, `The answer of ${first} was not kept. ${see}`)
  return [
    { request: before, answer },
    { request, answer: again },
  ]
}

const coloured = (line: string, { paint }: Cli): string =>
  line.startsWith('+') ? paint.good(plain(line)) : line.startsWith('-') ? paint.bad(plain(line)) : plain(line)

const linesOf = (before: Compared, after: Compared, cli: Cli): readonly string[] => {
  const lines = signedLines(before.answer, after.answer)
  return [
    `--- ${requestLine(before.request, cli.paint)}`,
    `+++ ${requestLine(after.request, cli.paint)}`,
    ...(lines.length === 0 ? ['the answers are equal'] : lines.map((line) => coloured(line, cli))),
  ]
}

const jsonOf = (before: Compared, after: Compared): object => {
  const lines: readonly DifferencePart[] = difference(before.answer.split('\n'), after.answer.split('\n'))
  return { object: 'request.difference', before, after, equal: before.answer === after.answer, lines }
}

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<request>', 'ID of a request whose bodies are kept')
    .option('-m, --model <name>', 'another model or route')
    .option('--diff', 'wait for the answer and compare it with the first one, line by line')
    .addHelpText('after', '\nExample: headgate replay req_kdvbwqhzmrtc -m anthropic/claude-haiku-4-5 --diff')
    .action(async (first: string, { model, diff }: { model?: string; diff?: true }) => {
      const gateway = await gatewayOf(cli())
      const body = model === undefined ? {} : { model }
      const replayed = await gateway.read(REPLAYED, `${pathOf(first)}/replay`, { method: 'POST', body })
      const { id } = replayed
      if (!diff) return cli().answer(replayed, () => [`sent again as ${id}; see it with: headgate explain ${id}`])
      const [before, after] = await comparedWith(gateway, id, first)
      cli().answer(jsonOf(before, after), () => linesOf(before, after, cli()))
    })
}
