/** Text and audio transcript of one streamed answer, which may be the same words. */

/** Characters that are compared. What follows is written from both. */
const MAX_COMPARED = 100_000

type Voice = {
  words: string
  /** White space after the words of both voices: written if words follow. */
  blank: string
  /** Some of its words were written. */
  written: boolean
}

/**
 * Writes words once that arrive both as text and as the transcript of audio, in any order of their fragments. A voice that
 * differs from the other is written as a whole. For formats without audio, in which the transcript becomes text.
 */
export class SpokenWords {
  readonly #text: Voice = { words: '', blank: '', written: false }
  readonly #transcript: Voice = { words: '', blank: '', written: false }
  #apart = false

  /** A transcript has begun. */
  get isSpoken(): boolean {
    return this.#transcript.words !== ''
  }

  /** The part of a fragment of the text that has to be written. */
  text(fragment: string): string {
    return this.#apart ? fragment : this.#add(fragment, this.#text, this.#transcript)
  }

  /** The part of a fragment of the transcript that has to be written. */
  transcript(fragment: string): string {
    return this.#apart ? fragment : this.#add(fragment, this.#transcript, this.#text)
  }

  #add(fragment: string, own: Voice, other: Voice): string {
    const before = own.words.length
    const more = before === 0 ? fragment.trimStart() : own.blank + fragment
    own.blank = ''
    this.#apart = before + more.length > MAX_COMPARED
    // It is ahead of the other, or alone.
    if (other.words.length <= before && (other.words === '' || more.trim() !== '')) {
      own.words += more
      own.written ||= more !== ''
      return other.words === '' ? fragment : more
    }
    const known = other.words.slice(before, before + more.length)
    if (!more.startsWith(known)) {
      this.#apart = true
      return own.written ? more : own.words + more
    }
    const rest = more.slice(known.length)
    if (rest.trim() === '') {
      own.words += known
      own.blank = rest
      return ''
    }
    own.words += more
    own.written = true
    return rest
  }
}
