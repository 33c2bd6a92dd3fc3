/**
 * Random texts (canaries) planted as keys, prompts and answers, and a search for them in everything the gateway
 * outputs. A match is any eight consecutive characters, in any encoding text may have; in hex, where each character has two
 * digits, sixteen of them: the ms of a date contain eight digits that mean four letters.
 */
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Random letters and digits, 124 bits: no part of it occurs anywhere by coincidence. */
export const randomText = (): string =>
  BigInt(`0x${randomBytes(16).toString('hex')}`)
    .toString(36)
    .slice(0, 24)

/** A key in the usual form, and one whose form does not reveal that it is a key. */
export const KEY_FORMS = {
  usual: () => `sk-${randomText()}${randomText()}`,
  odd: () => `${randomText()}+/${randomText()}==`,
} as const satisfies { readonly [form: string]: () => string }

const RUN = 8
/** The first and last four characters of a key may be shown. */
const SHOWN = 4

export type Canary = { readonly name: string; readonly value: string; readonly isKey: boolean }

/** The encodings in which a text may appear. */
const formsOf = (value: string): readonly string[] => {
  const bytes = Buffer.from(value)
  // Base64 depends on the offset of the text, modulo 3, within what is encoded.
  const shifted = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(shift === 0 ? 0 : 4, -4),
  )
  return [
    value,
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
    ...shifted,
    ...shifted.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** Returns the canaries found in a text, with their surroundings. */
export type Search = (text: string) => readonly string[]

export const searchFor = (canaries: readonly Canary[]): Search => {
  const runs = new Map<string, string>()
  const hexRuns = new Map<string, string>()
  for (const { name, value, isKey } of canaries) {
    const hidden = isKey ? value.slice(SHOWN, -SHOWN) : value
    if (hidden.length < RUN) throw new Error(`the canary ${name} is too short to be found`)
    for (const form of formsOf(hidden))
      for (let at = 0; at + RUN <= form.length; at++) runs.set(form.slice(at, at + RUN), name)
    const hex = Buffer.from(hidden).toString('hex')
    for (let at = 0; at + 2 * RUN <= hex.length; at++) hexRuns.set(hex.slice(at, at + 2 * RUN), name)
  }
  return (text) => {
    const found = new Map<string, string>()
    for (let at = 0; at + RUN <= text.length; at++) {
      const name = runs.get(text.slice(at, at + RUN)) ?? hexRuns.get(text.slice(at, at + 2 * RUN))
      if (name !== undefined && !found.has(name)) found.set(name, text.slice(Math.max(0, at - 80), at + 40))
    }
    return [...found].slice(0, 5).map(([name, around]) => `${name}: …${around}…`)
  }
}

/** Every file below a folder, as text that preserves every byte. */
export const filesBelow = (folder: string): readonly { readonly path: string; readonly text: string }[] =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    const about = statSync(path)
    if (about.isDirectory()) return filesBelow(path)
    return about.isFile() ? [{ path, text: readFileSync(path, 'latin1') }] : []
  })
