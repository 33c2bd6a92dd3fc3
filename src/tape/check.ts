/** What `headgate tape` does with the files of a folder. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Json, list, object, parseObject } from '../core/json.ts'
import { maskedAnswer } from './answer-texts.ts'
import { ExchangeMasks, findPersonal } from './masking.ts'
import { secretSearch, textsIn } from './secrets.ts'
import { type Exchange, exchangeLines, headLine, nameOf, type TapedExchange, textOfBytes } from './tape-file.ts'
import { LAST_RUN, type LoadedTape, TapeFolder } from './tape-folder.ts'

/** The last run of a gateway with this folder. */
export type LastRun = {
  readonly misses: number
  readonly replayed: number
  readonly recorded: number
  readonly failed: number
  readonly last_miss: string | null
  /** Digests of the exchanges that were replayed or recorded, by tape. */
  readonly used: { readonly [tape: string]: readonly string[] }
}

/** Null: there was none. */
export const lastRun = (folder: string): LastRun | null => {
  const path = join(folder, LAST_RUN)
  const run = statSync(path, { throwIfNoEntry: false })?.isFile() ? parseObject(readFileSync(path, 'utf8')) : undefined
  // `Tapes.close` has written it.
  return run ? (run as unknown as LastRun) : null
}

/** One tape. `unused`: exchanges that the last run did not use; null: it did not use the tape. */
export type TapeReport = {
  readonly name: string
  readonly exchanges: number
  readonly bytes: number
  readonly oldest: string | null
  readonly unused: readonly string[] | null
  readonly problems: readonly string[]
}

export const checkTapes = (path: string): readonly TapeReport[] => {
  const folder = new TapeFolder(path)
  const run = lastRun(path)
  return folder.names().map((name) => {
    const { exchanges, bytes, problems } = folder.open(name)
    const used = run?.used[name] && new Set(run.used[name])
    return {
      name,
      exchanges: exchanges.length,
      bytes,
      oldest: exchanges.map(({ at }) => at).sort()[0] ?? null,
      unused: used ? exchanges.filter(({ digest }) => !used.has(digest)).map(nameOf) : null,
      problems: problems.map(({ line, message }) => `${folder.fileOf(name)}:${line}: ${message}`),
    }
  })
}

export type Pruned = { readonly name: string; readonly kept: number; readonly before: number; readonly after: number }

/** A file is not written, because it is not a tape of this version. */
export class NotATape extends Error {}

/**
 * Writes tapes without lines that nothing uses; `unused`: also without exchanges that the last run did not use. Throws `NotATape`
 * before anything is changed.
 */
export const pruneTapes = (path: string, { unused }: { readonly unused: boolean }): readonly Pruned[] => {
  const folder = new TapeFolder(path)
  const run = lastRun(path)
  const tapes = folder.names().map((name) => folder.open(name))
  const refused = tapes.find(({ refusal }) => refusal !== null)
  if (refused) throw new NotATape(`${refused.path} is not pruned. ${refused.refusal} Move it to another folder.`)
  const pruned = tapes.map((tape) => {
    const { name } = tape
    const used = unused && run?.used[name] ? new Set(run.used[name]) : null
    const kept = used ? tape.exchanges.filter(({ digest }) => used.has(digest)) : tape.exchanges
    const text = textOf(tape, kept)
    writeFileSync(`${tape.path}.new`, text)
    renameSync(`${tape.path}.new`, tape.path)
    return { name, kept: kept.length, before: tape.bytes, after: Buffer.byteLength(text) }
  })
  removeMedia(path, folder)
  return pruned
}

const textOf = ({ normalise }: LoadedTape, exchanges: readonly Exchange[]): string => {
  const known = new Set<string>()
  return headLine(normalise) + exchanges.map((one) => exchangeLines({ ...one, replaces: false }, known)).join('')
}

/** Names of files that tapes have written: digests. */
const MEDIA_NAME = /^[0-9a-f]{64}$/

const removeMedia = (path: string, folder: TapeFolder): void => {
  const media = join(path, 'media')
  if (!existsSync(media)) return
  const used = folder.names().map((name) => readFileSync(folder.fileOf(name), 'utf8'))
  for (const file of readdirSync(media).filter((name) => MEDIA_NAME.test(name)))
    if (!used.some((text) => text.includes(`media/${file}`))) rmSync(join(media, file))
}

/** Lines with a secret or personal data, as `file:line: what`. Their texts are not shown. */
export const scanTapes = (path: string, secrets: readonly string[]): readonly string[] => {
  const folder = new TapeFolder(path)
  const isSecret = secretSearch(secrets)
  const media = join(path, 'media')
  const pictures = existsSync(media) ? readdirSync(media) : []
  return [
    ...folder.names().flatMap((name) => scanTape(folder.open(name), isSecret)),
    ...pictures
      .filter((file) => isSecret(readFileSync(join(media, file)).toString('latin1')))
      .map((file) => `${join(media, file)}: a secret`),
  ]
}

const scanTape = (tape: LoadedTape, isSecret: (text: string) => boolean): readonly string[] => {
  const found = readFileSync(tape.path, 'utf8')
    .split('\n')
    .flatMap((line, at) => {
      const texts = textsIn(textsOfLine(line))
      const kinds = texts.flatMap((text) => findPersonal(text).map(({ kind }) => kind))
      if ([line, ...texts].some(isSecret)) kinds.push('apiKey')
      return [...new Set(kinds)].map((kind) => `${tape.path}:${at + 1}: ${kind}`)
    })
  return [...found, ...tape.exchanges.flatMap((exchange) => spreadIn(tape, exchange, isSecret))]
}

/** What vendors and people have written in a line; its digests and times are no such texts. */
const textsOfLine = (line: string): Json => {
  const value = parseObject(line)
  if (!value) return line
  const { value: part = null, settings = null, headers = null, text = null, model = null, test = null } = value
  return [part, settings, object(headers) ?? null, model, test, ...list(text === null ? [] : [text])]
}

/** What is spread over the events of an answer. */
const spreadIn = (tape: LoadedTape, { answer, line }: TapedExchange, isSecret: (text: string) => boolean) => {
  const pieces = answer.events.map(({ bytes }) => textOfBytes(bytes) ?? '')
  const masked = maskedAnswer(pieces, new ExchangeMasks([]))
  const isFound = masked.pieces.some((piece, at) => piece !== pieces[at])
  return isFound || masked.texts.flatMap(textsIn).some(isSecret) ? [`${tape.path}:${line}: a text of the answer`] : []
}
