// What a person's app has of the package.

import { open } from "pipkin";

const db = await open("app");
await db.json().update("visits", (visits) => (visits ?? 0) + 1, { durability: "strict" });
const { version } = await (await db.events("visits")).append("visits", { type: "Visited" }, { durability: "strict" });
document.title = `visit ${await db.json().get("visits")}, event ${version}`;
