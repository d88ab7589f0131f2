for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.ariaSort !== "descending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const compare = (a, b) => isNaN(a) || isNaN(b) || a === "" || b === ""
        ? a.localeCompare(b) : a - b;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
      table.tBodies[0].append(...rows);
    };
  });
}
