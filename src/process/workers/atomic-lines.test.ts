import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openLog } from '../../observe/log.ts'
import { ATOMIC_WRITE_BYTES, atomicLines } from './atomic-lines.ts'

const line = (letter: string, bytes: number) => `${letter.repeat(bytes - 1)}\n`

/** What was written, one text per write. */
const writtenBy = (text: string): readonly string[] => {
  const calls: string[] = []
  atomicLines(1, (_fd, piece) => {
    calls.push(piece.toString())
    return piece.length
  }).write(text)
  return calls
}

const cuts = [
  ['nothing', '', []],
  ['one line', 'a\n', ['a\n']],
  ['lines that fit together', 'a\nb\n', ['a\nb\n']],
  ['exactly as much as fits', line('a', 4000) + line('b', 96), [line('a', 4000) + line('b', 96)]],
  ['a byte more', line('a', 4000) + line('b', 97), [line('a', 4000), line('b', 97)]],
  ['bytes, not characters', line('ä', 2049) + line('b', 2), [line('ä', 2049), line('b', 2)]],
  ['a line longer than the limit', `x\n${line('a', 5000)}y\n`, ['x\n', line('a', 5000), 'y\n']],
] as const
for (const [name, text, pieces] of cuts) test(`atomic lines: ${name}`, () => assert.deepEqual(writtenBy(text), pieces))

test('atomic lines: a full pipe is retried, and the order is kept', async () => {
  const out: string[] = []
  let full = true
  const shared = atomicLines(1, (_fd, piece) => {
    if (full) throw Object.assign(new Error('full'), { code: 'EAGAIN' })
    // The system may accept a part only.
    out.push(piece.toString('latin1', 0, 1))
    return 1
  })
  assert.equal(shared.write('ab\n'), false)
  assert.equal(shared.write('c\n'), false)
  assert.equal(shared.writableLength, 5)
  full = false
  while (shared.writableLength > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(out.join(''), 'ab\nc\n')
})

test('atomic lines: a closed reader is reported once, and buffered lines are dropped', () => {
  const errors: string[] = []
  const shared = atomicLines(1, () => {
    throw Object.assign(new Error('gone'), { code: 'EPIPE' })
  })
  shared.on('error', ({ message }) => errors.push(message))
  shared.write('a\n')
  assert.deepEqual([errors, shared.writableLength], [['gone'], 0])
})

test('atomic lines: three processes that fill one pipe neither mix nor lose lines', async () => {
  const module = fileURLToPath(new URL('./atomic-lines.ts', import.meta.url))
  // Accessing process.stdout makes the pipe non-blocking, as in the gateway.
  const program = `
    import { atomicLines } from ${JSON.stringify(module)}
    const out = process.stdout.isTTY ? null : atomicLines(1)
    for (let at = 0; at < 400; at++) out.write((process.argv[1] + ' ' + at + ' ').padEnd(100 + (at * 37) % 3900, process.argv[1]) + '\\n')
    process.exitCode = 0`
  // A shell, so that all three share the pipe.
  const run = `for n in a b c; do "$0" --input-type=module -e "$1" $n & done; wait`
  const shell = spawn('sh', ['-c', run, process.execPath, program], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  shell.stdout.setEncoding('utf8').on('data', (some: string) => {
    text += some
    // A slow reader: the pipe is full most of the time.
    shell.stdout.pause()
    setTimeout(() => shell.stdout.resume(), 2)
  })
  await once(shell, 'close')
  const lines = text.split('\n').slice(0, -1)
  assert.equal(lines.length, 1200)
  for (const one of lines) assert.match(one, /^([abc]) \d+ \1*$/)
  assert.ok(lines.some((one) => one.length > ATOMIC_WRITE_BYTES - 200))
})

const fields = [
  ['short', { id: 'req_1', message: 'x' }],
  ['several long ones', { message: 'x'.repeat(9_000), stack: 'y'.repeat(9_000), detail: 'z'.repeat(9_000) }],
  ['characters that take six bytes in JSON', { message: '\u0001'.repeat(9_000) }],
  ['many', Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`field${at}`, 'ä'.repeat(500)]))],
  ['a list', { trail: Array.from({ length: 64 }, (_, at) => `${at}${'x'.repeat(200)}`), message: 'm'.repeat(2_000) }],
] as const
for (const [name, given] of fields)
  test(`atomic lines: a log line with a \`worker\` field is shortened to one atomic write: ${name}`, () => {
    const calls: string[] = []
    const out = atomicLines(1, (_fd, piece) => {
      calls.push(piece.toString())
      return piece.length
    })
    const log = openLog({ out, level: 'info', format: 'json', shared: { worker: 3, whole: ATOMIC_WRITE_BYTES } })
    log.info('test_event', given)
    log.flush()
    const [line = '', ...more] = calls
    assert.equal(more.length, 0)
    assert.ok(Buffer.byteLength(line) <= ATOMIC_WRITE_BYTES, `${Buffer.byteLength(line)} bytes`)
    const { worker, event, ...rest } = JSON.parse(line)
    assert.deepEqual([worker, event], [3, 'test_event'])
    for (const field of Object.keys(given)) assert.ok(field in rest, field)
    if (name === 'short') assert.deepEqual({ ...rest, time: 0 }, { time: 0, level: 'info', ...given })
  })
