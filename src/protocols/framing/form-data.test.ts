import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PIECE } from '../../core/steps.ts'
import { boundaryIn, FormScanner, formType } from './form-data.ts'

const read = (form: string | Uint8Array, boundary = 'B') => {
  const bytes = typeof form === 'string' ? Buffer.from(form, 'latin1') : Buffer.from(form)
  return readPieces([bytes], boundary)
}

/** The parts, or why they are refused. A field is as kept, and where it was found. */
const readPieces = (pieces: readonly Buffer[], boundary = 'B') => {
  const bytes = Buffer.concat(pieces)
  const scanner = new FormScanner(boundary)
  for (const piece of pieces) {
    const problem = scanner.push(piece)
    if (problem) return problem.message
  }
  const parts = scanner.end()
  if (!parts.ok) return parts.failure.message
  return parts.value.map(({ name, isFile, start, end, value }) => {
    const content = bytes.toString('latin1', start, end)
    if (value) assert.equal(Buffer.from(value).toString('latin1'), content)
    return [name, isFile, content]
  })
}

const field = (name: string, value: string, more = '') =>
  `--B\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`

test('form: fields and files in any order, with every byte', () => {
  const all = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')
  const file = field('file', `${all}\r\n--\r\n--A\r\n-B${all}`, '; filename="a.mp3"\r\nContent-Type: audio/mpeg')
  assert.deepEqual(read(`${file}${field('model', 'm')}${field('empty', '')}--B--\r\n`), [
    ['file', true, `${all}\r\n--\r\n--A\r\n-B${all}`],
    ['model', false, 'm'],
    ['empty', false, ''],
  ])
})

test('form: what undici and browsers write is read', async () => {
  const form = new FormData()
  form.set('model', 'whisper-1')
  form.append('include[]', 'logprobs')
  form.append('include[]', 'words')
  form.set('file', new File([new Uint8Array([13, 10, 45, 45, 0, 255])], 'ä "quoted".mp3', { type: 'audio/mpeg' }))
  const response = new Response(form)
  const boundary = boundaryIn(response.headers.get('content-type') ?? '')
  assert.ok(boundary.ok)
  assert.deepEqual(read(new Uint8Array(await response.arrayBuffer()), boundary.value), [
    ['model', false, 'whisper-1'],
    ['include[]', false, 'logprobs'],
    ['include[]', false, 'words'],
    ['file', true, '\r\n--\x00\xff'],
  ])
})

test('form: a delimiter is found at every distance in a file of several pieces', () => {
  for (const length of [0, 1, 2, 3, 4, 5, 6, 7, PIECE - 1, PIECE, 2 * PIECE + 3])
    assert.deepEqual(read(`${field('f', '\r'.repeat(length), '; filename=a')}--B--`), [
      ['f', true, '\r'.repeat(length)],
    ])
})

/** The parts as undici reads them; null: it refuses. */
const readByUndici = async (form: Buffer): Promise<unknown> => {
  try {
    const response = new Response(form, { headers: { 'content-type': 'multipart/form-data; boundary=B' } })
    const parts: unknown[] = []
    for (const [name, value] of await response.formData())
      parts.push([
        name,
        typeof value !== 'string',
        typeof value === 'string' ? value : Buffer.from(await value.arrayBuffer()).toString('latin1'),
      ])
    return parts
  } catch {
    return null
  }
}

/** Bytes that change how a form is read. */
const CHANGES = ['', '\r', '\n', '\r\n', '-', '--B', '\r\n--B', '\r\n--B--', '"', ';', ':', ' ', 'x']

test('form: what is accepted is read by another parser in the same way, cut and changed at every byte', async () => {
  const form = `${field('model', 'm')}${field('file', 'a\r\n--', '; filename="a.mp3"\r\ncontent-type: audio/mpeg')}--B--\r\n`
  let [accepted, refused] = [0, 0]
  for (let at = 0; at <= form.length; at++)
    for (const change of CHANGES)
      for (const removed of [0, 1]) {
        const changed = form.slice(0, at) + change + form.slice(at + removed)
        const own = read(changed)
        if (typeof own === 'string') refused++
        else {
          // A form that the other one refuses reaches no model.
          const theirs = await readByUndici(Buffer.from(changed, 'latin1'))
          if (theirs === null) continue
          accepted++
          assert.deepEqual(own, theirs, JSON.stringify(changed))
        }
      }
  for (let at = 0; at < form.length - 2; at++) assert.equal(typeof read(form.slice(0, at)), 'string', `cut at ${at}`)
  assert.ok(accepted > 500 && refused > 500, `${accepted} accepted, ${refused} refused`)
})

const LONG = 'x'.repeat(9_000)
const REFUSED: readonly (readonly [name: string, form: string, message: RegExp])[] = [
  ['nothing', '', /does not begin/],
  ['text before the first boundary', `hello\r\n${field('a', '1')}--B--`, /does not begin/],
  ['no last boundary', field('a', '1'), /last boundary is missing|follows a boundary/],
  ['a form that is cut', field('a', '1').slice(0, -2), /last boundary is missing/],
  ['text after the last boundary', `${field('a', '1')}--B--\r\n${field('model', 'x')}--B--`, /follows its last/],
  ['a boundary that goes on', `${field('a', 'x\r\n--BX\r\ny')}--B--`, /follows a boundary/],
  ['a field twice', `${field('model', 'a')}${field('model', 'b')}--B--`, /"model" occurs more than once/],
  ['name*', `${field('x', '1', "; name*=utf-8''model")}--B--`, /no name/],
  ['two names', `${field('x', '1', '; name="model"')}--B--`, /no name/],
  ['an escape in a name', `${field('mo\\del', '1')}--B--`, /no name/],
  ['a percent in a name', `${field('mod%65l', '1')}--B--`, /no name/],
  ['no name', '--B\r\ncontent-disposition: form-data\r\n\r\n1\r\n--B--', /no name/],
  ['another disposition', '--B\r\ncontent-disposition: attachment; name="a"\r\n\r\n1\r\n--B--', /no name/],
  [
    'two dispositions',
    `${field('x', '1', '\r\nContent-Disposition: form-data; name="model"')}--B--`,
    /repeated headers/,
  ],
  ['a folded header', `${field('x', '1', ';\r\n name="model"')}--B--`, /malformed or repeated/],
  ['a line feed in a header', `${field('x', '1', '\nx: y')}--B--`, /malformed or repeated/],
  ['an encoded part', `${field('x', '1', '\r\ncontent-transfer-encoding: base64')}--B--`, /encoded/],
  ['a form in a form', `${field('x', '1', '\r\ncontent-type: multipart/mixed; boundary=C')}--B--`, /a form itself/],
  ['long headers', `${field('x', '1', `\r\nx: ${LONG}`)}--B--`, /within 8192 bytes/],
  ['line feeds only', `${field('a', '1')}--B--`.replaceAll('\r\n', '\n'), /follows a boundary/],
  ['65 parts', `${Array.from({ length: 65 }, () => field('a[]', '1')).join('')}--B--`, /more than 64 parts/],
]
for (const [name, form, message] of REFUSED)
  test(`form: ${name} is refused`, () => {
    const problem = read(form)
    assert.equal(typeof problem, 'string', JSON.stringify(problem))
    assert.match(String(problem), message)
  })

const TYPES: readonly (readonly [type: string, boundary: string | null])[] = [
  ['multipart/form-data; boundary=----WebKitFormBoundaryAbC123', '----WebKitFormBoundaryAbC123'],
  ['multipart/form-data; boundary="a b:c"', 'a b:c'],
  ['Multipart/Form-Data; charset=utf-8; Boundary=x', 'x'],
  ['multipart/form-data', null],
  ['multipart/form-data; boundary=', null],
  ['multipart/form-data; boundary=""', null],
  ['multipart/form-data; boundary=a; boundary=b', null],
  ["multipart/form-data; boundary=a; boundary*=utf-8''b; x", null],
  [`multipart/form-data; boundary=${'x'.repeat(71)}`, null],
  ['multipart/form-data; boundary="a\\"b"', null],
  ['multipart/mixed; boundary=a', null],
]
for (const [type, boundary] of TYPES)
  test(`form: the boundary of ${type.slice(0, 70)} is ${boundary}`, () => {
    const found = boundaryIn(type)
    assert.equal(found.ok ? found.value : null, boundary)
    if (!found.ok) return
    const again = boundaryIn(formType(found.value))
    assert.equal(again.ok && again.value, boundary)
  })
