/** The smallest media that vendors accept, in base64: white pictures of 64 × 64, a page, a second of silence. */
import type { Part } from '../../core/chat.ts'
import { AUDIO_TYPES, type Feature, IMAGE_TYPES } from './features.ts'

const IMAGES: { readonly [type in (typeof IMAGE_TYPES)[number]]: string } = {
  png: 'iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PMQ0AAAwDoPo33UrYvQQckD4XAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAYHLAMpT0sIcNbcEAAAAAElFTkSuQmCC',
  jpeg: `/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI${'/'.repeat(52)}2wBDAVVaWnhpeOuCguv${'/'.repeat(73)}wAARCABAAEADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFAEBAAAAAAAAAAAAAAAAAAAAAP/EABQRAQAAAAAAAAAAAAAAAAAAAAD/2gAMAwEAAhEDEQA/ALQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAf/2Q==`,
  gif: 'R0lGODlhQABAAIAAAP///wAAACwAAAAAQABAAAACRYSPqcvtD6OctNqLs968+w+G4kiW5omm6sq27gvH8kzX9o3n+s73/g8MCofEovGITCqXzKbzCY1Kp9Sq9YrNarfcrhdQAAA7',
  webp: 'UklGRjoAAABXRUJQVlA4IC4AAACQAwCdASpAAEAAP3G412Q0ryumoggCkC4JaQAAEDdTUAV4hbkAAP7tqAAAAAAA',
}

const PDF =
  'JVBERi0xLjQKMSAwIG9iago8PC9UeXBlL0NhdGFsb2cvUGFnZXMgMiAwIFI+PgplbmRvYmoKMiAwIG9iago8PC9UeXBlL1BhZ2VzL0tpZHNbMyAwIFJdL0NvdW50IDE+PgplbmRvYmoKMyAwIG9iago8PC9UeXBlL1BhZ2UvUGFyZW50IDIgMCBSL01lZGlhQm94WzAgMCA2NCA2NF0+PgplbmRvYmoKeHJlZgowIDQKMDAwMDAwMDAwMCA2NTUzNSBmIAowMDAwMDAwMDA5IDAwMDAwIG4gCjAwMDAwMDAwNTQgMDAwMDAgbiAKMDAwMDAwMDEwNSAwMDAwMCBuIAp0cmFpbGVyCjw8L1NpemUgNC9Sb290IDEgMCBSPj4Kc3RhcnR4cmVmCjE2OAolJUVPRgo='

const TEXT = 'T0s='

/** WAV: 8 kHz, 16 bit. MP3: 28 silent frames of 36 ms. */
const AUDIO: { readonly [type in (typeof AUDIO_TYPES)[number]]: string } = {
  wav: `UklGRqQ+AABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YYA+AAAA${'AAAA'.repeat(5333)}`,
  mp3: `//sYwA${'A'.repeat(186)}`.repeat(28),
}

/** `count` pictures, files and sounds of the kinds that the features name, in turn, and each kind at least once. */
export const mediaOf = (has: ReadonlySet<Feature>, count: number): readonly Part[] => {
  const found: ((at: string) => Part)[] = []
  const data = (mediaType: string, bytes: string) => ({ kind: 'data', mediaType, data: bytes }) as const
  for (const type of IMAGE_TYPES)
    if (has.has(`image.${type}`))
      found.push((at) => ({ type: 'image', at, source: data(`image/${type}`, IMAGES[type]) }))
  if (has.has('file.pdf'))
    found.push((at) => ({ type: 'file', at, source: data('application/pdf', PDF), filename: 'drill.pdf' }))
  if (has.has('file.text'))
    found.push((at) => ({ type: 'file', at, source: data('text/plain', TEXT), filename: 'drill.txt' }))
  for (const type of AUDIO_TYPES)
    if (has.has(`audio.${type}`)) found.push((at) => ({ type: 'audio', at, data: AUDIO[type], format: type }))
  if (found.length === 0) return []
  return Array.from({ length: Math.max(count, found.length) }, (_, index) => index).flatMap((index) => {
    const make = found[index % found.length]
    return make ? [make(`media[${index}]`)] : []
  })
}
