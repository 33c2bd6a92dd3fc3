import type { World } from '../../core/world.ts'

/** So many small letters by chance: ids of ours have no digits, which some clients would take for a status. */
export const randomLetters = (world: Pick<World, 'random'>, length: number): string => {
  let letters = ''
  for (let count = 0; count < length; count++) letters += ALPHABET[Math.floor(world.random() * 26)] ?? ''
  return letters
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz'
