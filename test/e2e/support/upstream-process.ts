/**
 * A provider as a separate process that can be killed without a FIN, as a crashed machine. Run directly it is that
 * process; imported it starts one.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { answerWith } from '../../support/answers.ts'
import { startUpstream } from '../../support/upstream.ts'

/** How it answers every request: the text, and the ms before the first piece and between two. */
export type AnswerTiming = {
  readonly text: string
  readonly first: number
  readonly gap: number
  readonly port?: number
}

export type UpstreamProcess = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  readonly port: number
  /** SIGKILL: connections break in mid-answer and the port refuses new ones. */
  readonly kill: () => Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export const startUpstreamProcess = async (manner: AnswerTiming): Promise<UpstreamProcess> => {
  const child: ChildProcess = fork(import.meta.filename, [JSON.stringify(manner)], { stdio: 'inherit' })
  const gone = once(child, 'exit')
  const [port] = await Promise.race([
    once(child, 'message'),
    gone.then(() => Promise.reject(new Error('the upstream ended before it listened'))),
  ])
  const kill = async () => {
    child.kill('SIGKILL')
    await gone
  }
  return { url: `http://127.0.0.1:${port}`, port: Number(port), kill, [Symbol.asyncDispose]: kill }
}

if (process.argv[1] === import.meta.filename) {
  const { text, port, ...pace }: AnswerTiming = JSON.parse(process.argv[2] ?? '{}')
  const upstream = await startUpstream(
    (request) =>
      request.method === 'GET'
        ? { do: 'answer', body: { object: 'list', data: [] } }
        : answerWith(request, { text }, pace),
    port === undefined ? {} : { port },
  )
  process.send?.(upstream.port)
  // Exits with its parent.
  process.on('disconnect', () => process.exit())
}
