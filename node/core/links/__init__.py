"""Between sites: messages as values, each delivered once and in order, and what their bytes were for."""
