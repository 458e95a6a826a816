import './panel.css';
import './jobs.css';
import './jobview.css';
import './curves.css';
import './overview.css';
import './batch.css';
import './tab.css';
