export function insert(handle: object): number;
export function read(file: number, into: Uint8Array, at: number): number;
export function write(file: number, bytes: Uint8Array, at: number): number;
export function size(file: number): number;
export function truncate(file: number, length: number): number;
export function flush(file: number): number;
export function close(file: number): number;
export function note(error: unknown): void;
export function reason(into: Uint8Array): number;
